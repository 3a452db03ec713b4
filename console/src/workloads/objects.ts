// Kubernetes objects that have actions, and the paths of their API.
import { send } from "../api/kubeProxy";

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

type Resource = { readonly name: string; readonly isNamespaced: boolean };

/** Resources of the other kinds, as clusters described them. */
const discovered = new Map<string, Resource>();

type ResourceList = { readonly resources?: readonly { readonly name: string; readonly kind: string; readonly namespaced: boolean }[] };

/** Asks a cluster for the resource of a kind, before `objectPath` and `resourceOf`. An error if it does not serve the kind. */
export async function discover(handle: string, ref: ObjectRef): Promise<void> {
  const kind = kindOf(ref);
  if (RESOURCES[kind] !== undefined || discovered.has(kind)) return;
  const { resources = [] } = (await send(handle, { method: "GET", path: ref.group ? ["apis", ref.group, ref.version] : ["api", ref.version] })) as ResourceList;
  // Subresources have the kind of their object too.
  const found = resources.find(({ name, kind: own }) => own === ref.kind && !name.includes("/"));
  if (found === undefined) throw new Error(`The cluster does not serve ${ref.kind} in ${ref.group ? `${ref.group}/` : ""}${ref.version}.`);
  discovered.set(kind, { name: found.name, isNamespaced: found.namespaced });
}

/** Plural name of a kind in the API; empty for kinds that are not discovered. */
export const resourceOf = (ref: Pick<ObjectRef, "group" | "kind">): string => RESOURCES[kindOf(ref)] ?? discovered.get(kindOf(ref))?.name ?? "";

/** Path of a namespaced resource type below a cluster. */
export const listPath = (group: string, version: string, namespace: string, resource: string): readonly string[] => [
  ...(group === "" ? ["api"] : ["apis", group]),
  version,
  "namespaces",
  namespace,
  resource,
];

/** Path of an object below a cluster, with a subresource. */
export const objectPath = (ref: ObjectRef, ...more: readonly string[]): readonly string[] => {
  const resource = resourceOf(ref);
  const isNamespaced = discovered.get(kindOf(ref))?.isNamespaced ?? true;
  const list = isNamespaced ? listPath(ref.group ?? "", ref.version, ref.namespace ?? "", resource) : [...(ref.group ? ["apis", ref.group] : ["api"]), ref.version, resource];
  return [...list, ref.name, ...more];
};

/** Kind and name as kubectl writes them, such as `deployment/web`. */
export const slashed = ({ kind, name }: ObjectRef): string => `${kind.toLowerCase()}/${name}`;
