// The kinds of gates: what each asks, and the fields of its form. YAML beside the form says all of it.
import type { GateType, StepType } from "../api/generated";

/** `path` leads into the gate as it is written: `metric.query`. */
export type GateField = {
  readonly path: string;
  readonly title: string;
  readonly note?: string;
  readonly of: "text" | "long" | "yaml" | "number" | "check" | "list" | "secret" | readonly string[];
  /** Of a check: what it is where nothing is written. */
  readonly usual?: boolean;
};
export type GateKind = { readonly title: string; readonly what: string; readonly fields: readonly GateField[]; readonly begun: Readonly<Record<string, unknown>> };

const PATIENCE: readonly GateField[] = [
  { path: "attempts", title: "Attempts", of: "number" },
  { path: "intervalSeconds", title: "Every", note: "seconds between looks", of: "number" },
  { path: "timeoutSeconds", title: "Give up after", note: "seconds; 0: never", of: "number" },
];

const CHECK = {
  apiVersion: "batch/v1",
  kind: "Job",
  metadata: { name: "check" },
  spec: { template: { spec: { restartPolicy: "Never", containers: [{ name: "check", image: "registry.example.org/check:1", command: ["true"] }] } } },
};

export const GATE_KINDS: Readonly<Record<GateType, GateKind>> = {
  APPROVAL: {
    title: "Approval",
    what: "so many people say yes to exact digests",
    begun: { quorum: 1 },
    fields: [
      { path: "quorum", title: "How many", note: "1, if nothing is said", of: "number" },
      { path: "notAuthor", title: "Not by the author of the commit", of: "check", usual: true },
      { path: "people", title: "Only these people", note: "e-mails, separated by blanks; empty: whoever has the right", of: "list" },
      { path: "groups", title: "Only these groups", of: "list" },
    ],
  },
  SOAK: { title: "Soak", what: "the stage before stays healthy so long", begun: { soakSeconds: 600 }, fields: [{ path: "soakSeconds", title: "Seconds", of: "number" }] },
  WINDOW: {
    title: "Window",
    what: "it is the time for it",
    begun: { calendar: { zone: "UTC", hours: [{ weekdays: [0, 1, 2, 3], begin: "09:00", end: "16:00" }] } },
    fields: [{ path: "calendar.zone", title: "Zone", note: "as Europe/Berlin; hours, holidays and freezes in the YAML", of: "text" }],
  },
  JOB: {
    title: "Job",
    what: "a Job in a cluster succeeds",
    begun: { job: { namespace: "default", manifest: CHECK } },
    fields: [
      { path: "job.namespace", title: "Namespace", of: "text" },
      { path: "job.manifest", title: "Manifest", note: "of a Job or a Pod", of: "yaml" },
      { path: "job.clusterId", title: "Cluster", note: "its id; empty: the first one of the stage before", of: "text" },
      { path: "job.timeoutSeconds", title: "At most", note: "seconds", of: "number" },
      ...PATIENCE,
    ],
  },
  METRIC: {
    title: "Metric",
    what: "a Prometheus answers within a limit",
    begun: { metric: { url: "https://prometheus.example.org", query: "sum(rate(http_requests_total{code=~\"5..\"}[5m]))", comparison: "AT_MOST", threshold: 1 } },
    fields: [
      { path: "metric.url", title: "Prometheus", note: "its address; empty: in the cluster, by the service below", of: "text" },
      { path: "metric.service", title: "Service", note: "in the cluster: namespace/name:port", of: "text" },
      { path: "metric.query", title: "Query", of: "text" },
      { path: "metric.comparison", title: "Has to be", of: ["AT_MOST", "BELOW", "AT_LEAST", "ABOVE"] },
      { path: "metric.threshold", title: "This", of: "number" },
      { path: "metric.baseline", title: "Times this query", note: "empty: as it is", of: "text" },
      { path: "metric.several", title: "Of several series", of: ["ALL", "ANY", "ERROR"] },
      { path: "metric.emptyPasses", title: "No series at all passes", of: "check" },
      ...PATIENCE,
    ],
  },
  HTTP: {
    title: "HTTP",
    what: "an address answers as it should",
    begun: { http: { url: "https://shop.example.org/healthz", status: 200 } },
    fields: [
      { path: "http.url", title: "Address", of: "text" },
      { path: "http.status", title: "Status", note: "0: any that is good", of: "number" },
      { path: "http.contains", title: "Contains", of: "text" },
      { path: "http.secret", title: "Signed with", note: "sealed; left empty, the one that is there stays", of: "secret" },
      ...PATIENCE,
    ],
  },
  VERSION: {
    title: "Version",
    what: "another service has a version",
    begun: { version: { service: "", range: ">=1.0.0" } },
    fields: [
      { path: "version.service", title: "Service", note: "cluster/name", of: "text" },
      { path: "version.range", title: "Range", of: "text" },
      ...PATIENCE,
    ],
  },
  MANUAL: { title: "Manual", what: "somebody verifies it", begun: { instructions: "" }, fields: [{ path: "instructions", title: "What has to be done", of: "long" }] },
  EXTERNAL: {
    title: "External",
    what: "another system answers",
    begun: { account: "" },
    fields: [
      { path: "account", title: "Its service account", of: "text" },
      { path: "timeoutSeconds", title: "Give up after", note: "seconds; 0: never", of: "number" },
    ],
  },
  WORKFLOW: { title: "Workflow", what: "several of these, in an order", begun: { steps: [{ name: "wait", type: "WAIT", waitSeconds: 60 }] }, fields: [] },
};

const { APPROVAL, JOB, METRIC, HTTP, VERSION } = GATE_KINDS;

/** What a step of a workflow may be. */
export const STEP_KINDS: Readonly<Record<StepType, GateKind>> = {
  JOB,
  METRIC,
  HTTP,
  VERSION,
  APPROVAL,
  WAIT: { title: "Wait", what: "some time passes", begun: { waitSeconds: 60 }, fields: [{ path: "waitSeconds", title: "Seconds", of: "number" }] },
};

const isMap = (value: unknown): value is Record<string, unknown> => typeof value === "object" && value !== null && !Array.isArray(value);

/** What stands at a path; undefined: nothing. */
export function at(value: unknown, path: string): unknown {
  return path.split(".").reduce<unknown>((inner, name) => (isMap(inner) ? inner[name] : undefined), value);
}

/** The same with something else at a path; undefined takes it away. */
export function withAt<Whole extends Readonly<Record<string, unknown>>>(value: Whole, path: string, next: unknown): Whole {
  const [name = "", ...rest] = path.split(".");
  const own = rest.length === 0 ? next : withAt(isMap(value[name]) ? value[name] : {}, rest.join("."), next);
  if (own !== undefined) return { ...value, [name]: own };
  return Object.fromEntries(Object.entries(value).filter(([one]) => one !== name)) as Whole;
}
