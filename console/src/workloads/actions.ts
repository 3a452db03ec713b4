// Actions on objects in a cluster. Each is one request to the Kubernetes API with the permissions of the user.
import type { KubeRequest } from "../api/kubeProxy";
import type { FormField, Values } from "../manage/kind";
import { number } from "../manage/values";
import { kindOf, listPath, objectPath, slashed, type LiveObject, type ObjectRef } from "./objects";

/** Permission in the cluster that an action needs, as the API server names it. */
export type Access = { readonly verb: string; readonly resource?: string; readonly subresource?: string };

export type WorkloadAction = {
  readonly id: string;
  /** Verb; the label of the button adds the kind. */
  readonly verb: string;
  readonly after?: string;
  /** Past participle for messages. */
  readonly done: string;
  /** `any`: one object of any kind. */
  readonly kinds: readonly string[] | "any";
  readonly access: Access;
  /** Whether the action makes sense for the present state of the object. */
  readonly fits?: (live: LiveObject) => boolean;
  readonly fields?: readonly FormField[];
  readonly initial?: (live: LiveObject) => Values;
  readonly consequence: string;
  /** Fields that the action sets; self-heal reverts those that Git sets. */
  readonly pointers: readonly string[];
  readonly request: (ref: ObjectRef, live: LiveObject, values: Values) => KubeRequest;
  /** Request that takes the action back; null, or absent: none does. */
  readonly back?: (ref: ObjectRef, live: LiveObject) => KubeRequest | null;
  /** Path that shows the effect, if it is not the object's own. */
  readonly subject?: (ref: ObjectRef) => readonly string[];
  /** Words after `kubectl --context CONTEXT -n NAMESPACE`. */
  readonly command: (ref: ObjectRef, values: Values) => readonly string[];
};

const TEMPLATED = ["apps/Deployment", "apps/StatefulSet", "apps/DaemonSet"];
const ROLLOUT = ["argoproj.io/Rollout"];
const isRollout = (ref: ObjectRef): boolean => ROLLOUT.includes(kindOf(ref));
const RESTARTED = "kubectl.kubernetes.io/restartedAt";
const MAX_JOB_NAME = 63;

const patch = (path: readonly string[], body: unknown): KubeRequest => ({ method: "PATCH", path, body });
const patchWords = (ref: ObjectRef, body: unknown): readonly string[] => ["patch", slashed(ref), "--type", "merge", "-p", JSON.stringify(body)];

/** Action that sets one field below `spec` to a fixed value. */
function setter(id: string, verb: string, done: string, kinds: readonly string[], field: "suspend" | "paused", value: boolean, consequence: string): WorkloadAction {
  const body = { spec: { [field]: value } };
  return {
    ...{ id, verb, done, kinds, consequence },
    access: { verb: "patch" },
    fits: ({ spec }) => (spec?.[field] ?? false) !== value,
    pointers: [`/spec/${field}`],
    request: (ref) => patch(objectPath(ref), body),
    back: (ref) => patch(objectPath(ref), { spec: { [field]: !value } }),
    command: (ref) => patchWords(ref, body),
  };
}

/** Name of a Job that a user starts from a CronJob; at most 63 characters. */
const jobName = (cronJob: string, values: Values): string => `${cronJob.slice(0, MAX_JOB_NAME - 14)}-manual-${typeof values["suffix"] === "string" ? values["suffix"] : "1"}`;

function jobOf(ref: ObjectRef, { metadata, spec }: LiveObject, values: Values): unknown {
  const template = spec?.jobTemplate;
  return {
    apiVersion: "batch/v1",
    kind: "Job",
    metadata: {
      name: jobName(ref.name, values),
      namespace: ref.namespace,
      labels: template?.metadata?.labels,
      annotations: { ...template?.metadata?.annotations, "cronjob.kubernetes.io/instantiate": "manual" },
      ownerReferences: [{ apiVersion: "batch/v1", kind: "CronJob", name: ref.name, uid: metadata.uid, controller: true }],
    },
    spec: template?.spec,
  };
}

/** Status of a rollout after its promotion by one step, as the kubectl plugin of Argo Rollouts sets it. */
function promotion({ metadata, spec, status }: LiveObject): unknown {
  const steps = spec?.strategy?.canary?.steps?.length ?? 0;
  const index = status?.currentStepIndex;
  const isPaused = (status?.pauseConditions?.length ?? 0) > 0;
  const next = !isPaused && index !== undefined && index < steps ? { currentStepIndex: index + 1 } : {};
  // The version refuses a promotion of another step than the previewed one.
  return { metadata: { resourceVersion: metadata.resourceVersion }, status: { ...(isPaused ? { pauseConditions: null } : {}), ...next } };
}

const TYPED = "typed";

/** Manifest for the editor: without the owners of its fields, which the API server keeps. */
const editable = ({ metadata, ...rest }: LiveObject): unknown => ({ ...rest, metadata: Object.fromEntries(Object.entries(metadata).filter(([name]) => name !== "managedFields")) });

/** Edited manifest. Its version refuses the change if the object has changed since. */
function edited(ref: ObjectRef, values: Values): unknown {
  const manifest = values["manifest"] as { readonly kind?: unknown; readonly metadata?: { readonly name?: unknown; readonly resourceVersion?: unknown } };
  if (manifest.kind !== ref.kind || manifest.metadata?.name !== ref.name) throw new Error("Kind and name of an object cannot change.");
  if (typeof manifest.metadata.resourceVersion !== "string") throw new Error("Keep metadata.resourceVersion: it refuses the change if the object has changed since.");
  return manifest;
}

const deletion = (ref: ObjectRef, { metadata }: LiveObject): KubeRequest => ({ method: "DELETE", path: objectPath(ref), body: { apiVersion: "v1", kind: "DeleteOptions", preconditions: { uid: metadata.uid } } });

const isUpdating = ({ status }: LiveObject): boolean => status?.currentPodHash !== undefined && status.currentPodHash !== status.stableRS;

/** Action that sets fields of the status of an Argo rollout. */
function decision(id: string, verb: string, done: string, consequence: string, fits: (live: LiveObject) => boolean, body: (live: LiveObject) => unknown, after = ""): WorkloadAction {
  return {
    ...{ id, verb, done, consequence, fits },
    ...(after === "" ? {} : { after }),
    kinds: ROLLOUT,
    access: { verb: "patch", subresource: "status" },
    pointers: [],
    request: (ref, live) => patch(objectPath(ref, "status"), body(live)),
    command: ({ name }) => ["argo", "rollouts", id === "promote-fully" ? "promote" : id, name, ...(id === "promote-fully" ? ["--full"] : [])],
  };
}

export const WORKLOAD_ACTIONS: readonly WorkloadAction[] = [
  {
    id: "restart",
    verb: "Restart",
    done: "restarted",
    kinds: [...TEMPLATED, ...ROLLOUT],
    access: { verb: "patch" },
    consequence: "Replaces the Pods one after another, by the update strategy of the workload.",
    pointers: [`/spec/template/metadata/annotations/${RESTARTED.replace("/", "~1")}`, "/spec/restartAt"],
    request: (ref, _, { now }) => patch(objectPath(ref), isRollout(ref) ? { spec: { restartAt: now } } : { spec: { template: { metadata: { annotations: { [RESTARTED]: now } } } } }),
    command: (ref) => (isRollout(ref) ? ["argo", "rollouts", "restart", ref.name] : ["rollout", "restart", slashed(ref)]),
  },
  {
    id: "scale",
    verb: "Scale",
    done: "scaled",
    kinds: ["apps/Deployment", "apps/StatefulSet", "apps/ReplicaSet", ...ROLLOUT],
    access: { verb: "patch", subresource: "scale" },
    fields: [{ path: "replicas", title: "Replicas", of: "number", required: true }],
    initial: ({ spec }) => ({ replicas: spec?.replicas ?? 1 }),
    consequence: "Kubernetes creates or deletes Pods until their number is reached.",
    pointers: ["/spec/replicas"],
    request: (ref, _, values) => patch(objectPath(ref, "scale"), { spec: { replicas: number(values, "replicas") } }),
    back: (ref, { spec }) => (spec?.replicas === undefined ? null : patch(objectPath(ref, "scale"), { spec: { replicas: spec.replicas } })),
    subject: (ref) => objectPath(ref, "scale"),
    command: (ref, values) => ["scale", slashed(ref), `--replicas=${number(values, "replicas") ?? ""}`],
  },
  decision("promote", "Promote", "promoted", "Continues a paused rollout, or skips its current step.", isUpdating, promotion),
  decision("promote-fully", "Promote", "promoted", "Skips all remaining steps, pauses and analyses: all traffic goes to the new version.", isUpdating, () => ({ status: { promoteFull: true } }), "fully"),
  decision("abort", "Abort", "aborted", "Stops the update: traffic goes back to the stable version. The definition in Git stays, and a retry starts the update again.", (live) => isUpdating(live) && live.status?.abort !== true, () => ({ status: { abort: true } })),
  {
    ...decision("retry", "Retry", "started again", "Starts the aborted update again from its first step.", ({ status }) => status?.abort === true, () => ({ status: { abort: false } })),
    command: ({ name }) => ["argo", "rollouts", "retry", "rollout", name],
  },
  setter("pause", "Pause", "paused", ["apps/Deployment", ...ROLLOUT], "paused", true, "New versions wait until the rollout continues. Running Pods stay."),
  setter("unpause", "Continue", "continued", ["apps/Deployment", ...ROLLOUT], "paused", false, "Kubernetes rolls out the waiting version."),
  setter("suspend", "Suspend", "suspended", ["batch/CronJob"], "suspend", true, "No new Jobs start. Running Jobs stay."),
  setter("resume", "Resume", "resumed", ["batch/CronJob"], "suspend", false, "Jobs start again by their schedule."),
  setter("suspend-job", "Suspend", "suspended", ["batch/Job"], "suspend", true, "Kubernetes deletes the running Pods of the Job until it resumes."),
  setter("resume-job", "Resume", "resumed", ["batch/Job"], "suspend", false, "Kubernetes creates Pods for the rest of the Job."),
  {
    id: "run",
    verb: "Run",
    after: "now",
    done: "started",
    kinds: ["batch/CronJob"],
    access: { verb: "create", resource: "jobs" },
    consequence: "Creates a Job from the template of the CronJob. Its schedule stays.",
    pointers: [],
    request: (ref, live, values) => ({ method: "POST", path: listPath("batch", "v1", ref.namespace ?? "", "jobs"), body: jobOf(ref, live, values) }),
    command: (ref, values) => ["create", "job", `--from=cronjob/${ref.name}`, jobName(ref.name, values)],
  },
  {
    id: "delete",
    verb: "Delete",
    done: "deleted",
    kinds: ["/Pod"],
    access: { verb: "delete" },
    consequence: "Kubernetes ends the containers and deletes the Pod. Its owner creates another one.",
    pointers: [""],
    request: deletion,
    command: ({ name }) => ["delete", "pod", name],
  },
  {
    id: "edit",
    verb: "Edit",
    done: "edited",
    kinds: "any",
    access: { verb: "update" },
    fields: [{ path: "manifest", title: "Manifest", of: "yaml", required: true }],
    initial: (live) => ({ manifest: editable(live) }),
    consequence: "Changes the object in the cluster, not in Git.",
    pointers: [""],
    request: (ref, _, values) => ({ method: "PUT", path: objectPath(ref), body: edited(ref, values) }),
    command: (ref) => ["edit", slashed(ref)],
  },
  {
    id: "delete-object",
    verb: "Delete",
    done: "deleted",
    kinds: "any",
    access: { verb: "delete" },
    fields: [{ path: TYPED, title: "Name of the object, to confirm", of: "text", required: true }],
    consequence: "Kubernetes deletes the object, what it owns, and what it contains, such as the objects of a Namespace or the data of a claim.",
    pointers: [""],
    request: (ref, live, values) => {
      if (values[TYPED] !== ref.name) throw new Error(`Type ${ref.name} to confirm the deletion.`);
      return deletion(ref, live);
    },
    command: (ref) => ["delete", slashed(ref)],
  },
];

const isPod = (ref: Pick<ObjectRef, "group" | "kind">): boolean => kindOf(ref) === "/Pod";

/** Actions for all of these objects. */
export const actionsFor = (refs: readonly Pick<ObjectRef, "group" | "kind">[]): readonly WorkloadAction[] =>
  refs.length === 0
    ? []
    : WORKLOAD_ACTIONS.filter(({ id, kinds }) => (kinds === "any" ? refs.length === 1 && !(id === "delete-object" && refs.some(isPod)) : refs.every((ref) => kinds.includes(kindOf(ref)))));

/** Whether the Pods of an object can be replaced one after another. */
export const isRestartable = (ref: Pick<ObjectRef, "group" | "kind">): boolean => actionsFor([ref]).some(({ id }) => id === "restart");

/** Label of an action's button: verb and object, such as `Restart Deployment`. */
export const titleOf = ({ verb, after = "" }: WorkloadAction, object: string): string => `${verb} ${object}${after === "" ? "" : ` ${after}`}`;
