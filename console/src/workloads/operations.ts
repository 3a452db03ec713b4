// Plans an action on objects with a dry run of the API server, and runs it.
import type { Client } from "urql";
import { ComponentContentDocument, SyncOptionsDocument } from "../api/generated";
import { send } from "../api/kubeProxy";
import type { KubeRequest } from "../api/kubeProxy";
import { reasonOf, type Change, type Operation, type Plan } from "../bulk/operation";
import type { Values } from "../manage/kind";
import { shellLine } from "../manage/values";
import { differing } from "../objects/fields";
import { toYaml } from "../text/yaml";
import { titleOf, type WorkloadAction } from "./actions";
import { discover, listPath, objectPath, resourceOf, type LiveObject, type ObjectRef } from "./objects";
import { selfHeal } from "./selfHeal";

export type WorkloadTarget = {
  /** Id of the object in the control plane. */
  readonly id: string;
  readonly ref: ObjectRef;
  readonly handle: string;
  /** Empty: no service owns the object. */
  readonly serviceId: string;
};

type Planned = { readonly request: KubeRequest; readonly document: unknown; readonly back: KubeRequest | null };

// Fields that every write changes.
const NOISE = ["/metadata/managedFields", "/metadata/resourceVersion", "/metadata/generation", "/metadata/creationTimestamp", "/status/observedGeneration"];

const isNoise = (pointer: string): boolean => NOISE.some((noise) => pointer === noise || pointer.startsWith(`${noise}/`));

/** Field of a JSON pointer as `kubectl explain` names it. */
const fieldOf = (pointer: string): string => pointer.slice(1).replaceAll("/", ".").replaceAll("~1", "/").replaceAll("~0", "~");

/** Fields that differ between two states of an object. */
export function changesOf(before: unknown, after: unknown): readonly Change[] {
  return [...differing(before, after, "")].filter(({ pointer }) => !isNoise(pointer)).map(({ pointer, git, cluster }) => ({ field: fieldOf(pointer), before: git, after: cluster }));
}

/** Reads the present state of an object. */
export async function readLive({ handle, ref }: WorkloadTarget): Promise<LiveObject> {
  await discover(handle, ref);
  return (await send(handle, { method: "GET", path: objectPath(ref) })) as LiveObject;
}

/** Reason of the API server why the user may not run an action; empty: the user may. */
export async function lackOf({ handle, ref }: WorkloadTarget, { access }: WorkloadAction): Promise<string> {
  const resource = access.resource ?? resourceOf(ref);
  const attributes = { verb: access.verb, group: ref.group ?? "", resource, subresource: access.subresource ?? "", namespace: ref.namespace ?? "", name: access.verb === "create" ? "" : ref.name };
  const body = { apiVersion: "authorization.k8s.io/v1", kind: "SelfSubjectAccessReview", spec: { resourceAttributes: attributes } };
  try {
    const answer = (await send(handle, { method: "POST", path: ["apis", "authorization.k8s.io", "v1", "selfsubjectaccessreviews"], body })) as { readonly status?: { readonly allowed?: boolean } };
    const object = [resource, access.subresource].filter(Boolean).join("/");
    return answer.status?.allowed === true ? "" : `You need the permission ${access.verb} ${object} in namespace ${ref.namespace ?? ""} of the cluster.`;
  } catch (error) {
    return reasonOf(error);
  }
}

type Autoscalers = { readonly items?: readonly { readonly metadata: { readonly name: string }; readonly spec: { readonly minReplicas?: number; readonly maxReplicas: number; readonly scaleTargetRef: { readonly kind: string; readonly name: string } } }[] };

/** Warning about an autoscaler that sets the replicas again. Without the permission to list them, there is none. */
async function autoscalerNotes({ handle, ref }: WorkloadTarget): Promise<readonly string[]> {
  try {
    const { items = [] } = (await send(handle, { method: "GET", path: listPath("autoscaling", "v2", ref.namespace ?? "", "horizontalpodautoscalers") })) as Autoscalers;
    return items
      .filter(({ spec: { scaleTargetRef } }) => scaleTargetRef.kind === ref.kind && scaleTargetRef.name === ref.name)
      .map(({ metadata, spec }) => `The autoscaler ${metadata.name} sets the replicas again, to ${spec.minReplicas ?? 1}–${spec.maxReplicas}.`);
  } catch {
    return [];
  }
}

function parsed(text: string | null | undefined): unknown {
  return text == null ? null : JSON.parse(text);
}

async function selfHealNotes(client: Client, { id, ref, serviceId }: WorkloadTarget, { pointers }: WorkloadAction): Promise<readonly string[]> {
  if (serviceId === "" || pointers.length === 0) return [];
  const [content, options] = await Promise.all([
    client.query(ComponentContentDocument, { id }, { requestPolicy: "network-only" }).toPromise(),
    client.query(SyncOptionsDocument, { id: serviceId }).toPromise(),
  ]);
  const service = options.data?.serviceDeployment;
  if (service == null || content.data?.component == null) return ["Towline cannot tell whether self-heal reverts the change."];
  return [selfHeal(ref, pointers, parsed(content.data.component.component.content?.desired), service.syncConfig, service.paused)];
}

/** Warning that nothing replaces a deleted Pod. */
const ownerNotes = ({ metadata }: LiveObject): readonly string[] =>
  metadata.ownerReferences?.some(({ controller }) => controller === true) === true ? [] : ["No controller owns this Pod: Kubernetes does not create another one."];

/** Partial manifest of a change. */
const documentOf = ({ group, version, kind, namespace, name }: ObjectRef, { method, body }: KubeRequest): unknown =>
  method === "PUT" ? body : method === "PATCH" ? { apiVersion: group ? `${group}/${version}` : version, kind, metadata: { name, namespace }, ...(body as object) } : method === "POST" ? body : null;

async function effectOf(action: WorkloadAction, target: WorkloadTarget, live: LiveObject, request: KubeRequest): Promise<readonly Change[]> {
  const { handle, ref } = target;
  if (request.method === "DELETE") {
    await send(handle, request, true);
    return [{ field: "", before: `${ref.kind} ${ref.name}`, after: null }];
  }
  const before = action.subject === undefined ? live : await send(handle, { method: "GET", path: action.subject(ref) });
  const after = await send(handle, request, true);
  if (request.method === "POST") return [{ field: "", before: null, after: `Job ${(after as LiveObject).metadata.name}` }];
  return changesOf(before, after);
}

async function planOf(client: Client, action: WorkloadAction, target: WorkloadTarget, values: Values): Promise<Plan<Planned>> {
  const live = await readLive(target);
  if (action.fits?.(live) === false) return { kind: "unchanged", reason: `The state of the object does not allow this action, or it is ${action.done} already.` };
  const request = action.request(target.ref, live, values);
  const changes = await effectOf(action, target, live, request);
  if (changes.length === 0) return { kind: "unchanged", reason: "The object has these values already." };
  const notes = [
    ...(action.id === "delete" ? ownerNotes(live) : []),
    ...(action.id === "scale" ? await autoscalerNotes(target) : []),
    ...(await selfHealNotes(client, target, action)),
  ];
  return { kind: "ready", planned: { request, document: documentOf(target.ref, request), back: action.back?.(target.ref, live) ?? null }, changes, notes };
}

/** Operation of an action on objects. `initial` are the first values of its fields. */
export function workloadOperation(client: Client, action: WorkloadAction, targets: readonly WorkloadTarget[], initial: Values): Operation<WorkloadTarget, Planned> {
  const [first] = targets;
  const isOne = targets.length === 1 && first !== undefined;
  const now = new Date();
  // Both differ in each dialog, and are the same in plan, command and run.
  const fixed = { now: now.toISOString().replace(/\.\d+Z$/, "Z"), suffix: Math.floor(now.getTime() / 1000).toString(36) };
  return {
    title: titleOf(action, isOne ? first.ref.kind : "objects"),
    done: action.done,
    noun: "object",
    consequence: action.consequence,
    key: ({ id }) => id,
    name: ({ ref }) => `${ref.kind} ${ref.namespace ?? ""}/${ref.name}`,
    ...(action.fields === undefined ? {} : { fields: action.fields }),
    initial: { ...fixed, ...initial },
    isDangerous: action.id.startsWith("delete"),
    plan: (target, values) => planOf(client, action, target, values),
    run: async ({ request, back }, { handle }) => {
      await send(handle, request);
      return back === null ? null : () => send(handle, back).then(() => ({}), (error: unknown) => ({ error: new Error(reasonOf(error)) }));
    },
    commands: (chosen, values) => chosen.map(({ ref, handle }) => shellLine(["kubectl", "--context", `towline-${handle}`, "-n", ref.namespace ?? "default", ...action.command(ref, values)])),
    yaml: (planned) =>
      planned
        .flatMap(({ document }) => (document === null ? [] : [toYaml(document)]))
        .join("---\n"),
  };
}
