// State of a service's workloads, read from its cluster with the permissions of the user.
import { KubeError, send } from "../api/kubeProxy";
import type { Component } from "../services/service";
import { listPath, objectPath } from "../workloads/objects";
import { targetOf } from "../workloads/WorkloadActions";
import { quantity } from "./quantities";

const MAX_WORKLOADS = 20;
const MAX_PODS = "500";
const COUNTED = new Set(["Deployment", "StatefulSet", "DaemonSet", "Rollout"]);

export type Replicas = { readonly id: string; readonly kind: string; readonly name: string; readonly ready: number; readonly desired: number };
export type Usage = { readonly used: number; readonly requested: number };
export type WorkloadStatus = {
  readonly replicas: readonly Replicas[];
  readonly restarts: number;
  readonly pods: number;
  /** Null: the cluster has no metrics, or the user may not read them. */
  readonly cpu: Usage | null;
  readonly memory: Usage | null;
  readonly noMetrics: string;
};

type Counts = { readonly replicas?: number; readonly readyReplicas?: number; readonly numberReady?: number; readonly desiredNumberScheduled?: number };
type Workload = { readonly spec?: { readonly replicas?: number }; readonly status?: Counts };
type Resources = Readonly<Record<string, string>>;
type Pod = {
  readonly metadata: { readonly name: string; readonly uid: string };
  readonly spec?: { readonly containers?: readonly { readonly resources?: { readonly requests?: Resources } }[] };
  readonly status?: { readonly containerStatuses?: readonly { readonly restartCount?: number }[] };
};
type PodMetrics = { readonly metadata: { readonly name: string }; readonly containers?: readonly { readonly usage?: Resources }[] };
type Items<Item> = { readonly items?: readonly Item[] };

async function replicasOf(handle: string, component: Component): Promise<Replicas> {
  const { ref } = targetOf(component, handle, "");
  const { spec, status } = (await send(handle, { method: "GET", path: objectPath(ref) })) as Workload;
  const isDaemon = component.kind === "DaemonSet";
  const ready = (isDaemon ? status?.numberReady : status?.readyReplicas) ?? 0;
  const desired = (isDaemon ? status?.desiredNumberScheduled : spec?.replicas) ?? 0;
  return { id: component.id, kind: component.kind, name: component.name, ready, desired };
}

const total = <Item>(items: readonly Item[], value: (item: Item) => number): number => items.reduce((sum, item) => sum + value(item), 0);

const list = async <Item>(handle: string, path: readonly string[]): Promise<readonly Item[]> => ((await send(handle, { method: "GET", path, query: { limit: MAX_PODS } })) as Items<Item>).items ?? [];

const requested = (pods: readonly Pod[], resource: string): number => total(pods, ({ spec }) => total(spec?.containers ?? [], ({ resources }) => quantity(resources?.requests?.[resource])));
const used = (pods: readonly PodMetrics[], resource: string): number => total(pods, ({ containers = [] }) => total(containers, ({ usage }) => quantity(usage?.[resource])));

/** Reason why there are no metrics, as a sentence. */
function whyNoMetrics(error: unknown): string {
  if (error instanceof KubeError && error.status === 404) return "The cluster has no metrics API: CPU and memory are not available.";
  return `CPU and memory are not available: ${error instanceof Error ? error.message : String(error)}`;
}

/** Reads workloads, Pods and metrics. Without metrics, the rest stays. */
export async function readStatus(handle: string, components: readonly Component[]): Promise<WorkloadStatus> {
  const workloads = components.filter(({ kind, ownerUid }) => COUNTED.has(kind) && !ownerUid).slice(0, MAX_WORKLOADS);
  const owned = components.filter(({ kind, group }) => kind === "Pod" && !group);
  const uids = new Set(owned.map(({ uid }) => uid));
  const names = new Set(owned.map(({ namespace, name }) => `${namespace ?? ""}/${name}`));
  const namespaces = [...new Set(owned.map(({ namespace }) => namespace ?? ""))];
  const [replicas, pods] = await Promise.all([
    Promise.all(workloads.map((component) => replicasOf(handle, component))),
    Promise.all(namespaces.map((namespace) => list<Pod>(handle, listPath("", "v1", namespace, "pods")))).then((lists) => lists.flat().filter(({ metadata }) => uids.has(metadata.uid))),
  ]);
  const metrics = await Promise.all(
    namespaces.map(async (namespace) => (await list<PodMetrics>(handle, listPath("metrics.k8s.io", "v1beta1", namespace, "pods"))).filter(({ metadata }) => names.has(`${namespace}/${metadata.name}`))),
  ).then(
    (lists) => lists.flat(),
    whyNoMetrics,
  );
  const isRead = typeof metrics !== "string";
  return {
    replicas,
    pods: owned.length,
    restarts: total(pods, ({ status }) => total(status?.containerStatuses ?? [], ({ restartCount = 0 }) => restartCount)),
    cpu: isRead ? { used: used(metrics, "cpu"), requested: requested(pods, "cpu") } : null,
    memory: isRead ? { used: used(metrics, "memory"), requested: requested(pods, "memory") } : null,
    noMetrics: isRead ? "" : metrics,
  };
}
