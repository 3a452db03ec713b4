// Kubernetes objects that have actions, and the paths of their API.

/** Identity of an object. */
export type ObjectRef = {
  readonly group: string | null;
  readonly version: string;
  readonly kind: string;
  readonly namespace: string | null;
  readonly name: string;
};

/** Parts of a live object that actions read. */
export type LiveObject = {
  readonly metadata: { readonly name: string; readonly uid: string; readonly resourceVersion: string; readonly ownerReferences?: readonly { readonly kind: string; readonly name: string; readonly controller?: boolean }[] };
  readonly spec?: {
    readonly replicas?: number;
    readonly suspend?: boolean;
    readonly paused?: boolean;
    readonly jobTemplate?: { readonly metadata?: { readonly labels?: unknown; readonly annotations?: Readonly<Record<string, string>> }; readonly spec?: unknown };
    readonly strategy?: { readonly canary?: { readonly steps?: readonly unknown[] } };
  };
  readonly status?: {
    readonly abort?: boolean;
    readonly phase?: string;
    readonly pauseConditions?: readonly unknown[];
    readonly currentStepIndex?: number;
    readonly currentPodHash?: string;
    readonly stableRS?: string;
  };
};

const RESOURCES: Readonly<Record<string, string>> = {
  "apps/Deployment": "deployments",
  "apps/StatefulSet": "statefulsets",
  "apps/DaemonSet": "daemonsets",
  "apps/ReplicaSet": "replicasets",
  "batch/CronJob": "cronjobs",
  "batch/Job": "jobs",
  "/Pod": "pods",
  "argoproj.io/Rollout": "rollouts",
};

/** Kind with its API group, such as `apps/Deployment`. */
export const kindOf = ({ group, kind }: Pick<ObjectRef, "group" | "kind">): string => `${group ?? ""}/${kind}`;

/** Plural name of a kind in the API; empty for kinds without actions. */
export const resourceOf = (ref: Pick<ObjectRef, "group" | "kind">): string => RESOURCES[kindOf(ref)] ?? "";

/** Path of a namespaced resource type below a cluster. */
export const listPath = (group: string, version: string, namespace: string, resource: string): readonly string[] => [
  ...(group === "" ? ["api"] : ["apis", group]),
  version,
  "namespaces",
  namespace,
  resource,
];

/** Path of an object below a cluster, with a subresource. */
export const objectPath = (ref: ObjectRef, ...more: readonly string[]): readonly string[] => [
  ...listPath(ref.group ?? "", ref.version, ref.namespace ?? "", resourceOf(ref)),
  ref.name,
  ...more,
];

/** Kind and name as kubectl writes them, such as `deployment/web`. */
export const slashed = ({ kind, name }: ObjectRef): string => `${kind.toLowerCase()}/${name}`;
