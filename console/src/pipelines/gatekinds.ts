// Kinds of gates and steps, with the fields of their forms. The YAML next to the form has all settings.
import type { GateType, StepType } from "../api/generated";

/** `path` is the field's path in the YAML of the gate: `metric.query`. */
export type GateField = {
  readonly path: string;
  readonly title: string;
  readonly note?: string;
  readonly of: "text" | "long" | "yaml" | "number" | "check" | "list" | "secret" | readonly string[];
  /** Default of a checkbox. */
  readonly default?: boolean;
};
export type GateKind = { readonly title: string; readonly description: string; readonly fields: readonly GateField[]; readonly initial: Readonly<Record<string, unknown>> };

const RETRIES: readonly GateField[] = [
  { path: "attempts", title: "Attempts", of: "number" },
  { path: "intervalSeconds", title: "Interval", note: "seconds between attempts", of: "number" },
  { path: "timeoutSeconds", title: "Timeout", note: "seconds; 0: no timeout", of: "number" },
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
    description: "requires N approvals",
    initial: { quorum: 1 },
    fields: [
      { path: "quorum", title: "Approvals", note: "default: 1", of: "number" },
      { path: "notAuthor", title: "Exclude the author of the commit", of: "check", default: true },
      { path: "people", title: "Approvers", note: "e-mail addresses, separated by spaces; empty: everyone with the permission", of: "list" },
      { path: "groups", title: "Approver groups", note: "names, separated by spaces", of: "list" },
    ],
  },
  SOAK: { title: "Soak", description: "requires that the source stage stays healthy for a time", initial: { soakSeconds: 600 }, fields: [{ path: "soakSeconds", title: "Seconds", of: "number" }] },
  WINDOW: {
    title: "Window",
    description: "opens during maintenance windows",
    initial: { calendar: { zone: "UTC", hours: [{ weekdays: [0, 1, 2, 3], begin: "09:00", end: "16:00" }] } },
    fields: [{ path: "calendar.zone", title: "Time zone", note: "such as Europe/Berlin; set hours, holidays and freezes in the YAML", of: "text" }],
  },
  JOB: {
    title: "Job",
    description: "runs a Job that must succeed",
    initial: { job: { namespace: "default", manifest: CHECK } },
    fields: [
      { path: "job.namespace", title: "Namespace", of: "text" },
      { path: "job.manifest", title: "Manifest", note: "Job or Pod", of: "yaml" },
      { path: "job.clusterId", title: "Cluster", note: "ID; empty: cluster of the first service in the target stage", of: "text" },
      { path: "job.timeoutSeconds", title: "Job timeout", note: "seconds", of: "number" },
      ...RETRIES,
    ],
  },
  METRIC: {
    title: "Metric",
    description: "compares a Prometheus query with a threshold",
    initial: { metric: { url: "https://prometheus.example.org", query: "sum(rate(http_requests_total{code=~\"5..\"}[5m]))", comparison: "AT_MOST", threshold: 1 } },
    fields: [
      { path: "metric.url", title: "Prometheus URL", note: "empty: use a Service in a cluster", of: "text" },
      { path: "metric.service", title: "Prometheus Service", note: "namespace/name:port; needs a cluster", of: "text" },
      { path: "metric.clusterId", title: "Cluster", note: "ID of the cluster that has the Service", of: "text" },
      { path: "metric.query", title: "Query", of: "text" },
      { path: "metric.comparison", title: "Comparison", of: ["AT_MOST", "BELOW", "AT_LEAST", "ABOVE"] },
      { path: "metric.threshold", title: "Threshold", of: "number" },
      { path: "metric.baseline", title: "Baseline query", note: "divides the value by this one; empty: no baseline", of: "text" },
      { path: "metric.several", title: "Several series", of: ["ALL", "ANY", "ERROR"] },
      { path: "metric.emptyPasses", title: "Pass without data", of: "check" },
      ...RETRIES,
    ],
  },
  HTTP: {
    title: "HTTP",
    description: "calls a URL and checks the response",
    initial: { http: { url: "https://shop.example.org/healthz", status: 200 } },
    fields: [
      { path: "http.url", title: "URL", of: "text" },
      { path: "http.status", title: "Status", note: "expected code; 0: any 2xx", of: "number" },
      { path: "http.contains", title: "Body contains", of: "text" },
      { path: "http.secret", title: "Signing secret", note: "stored encrypted; empty: keep the current one", of: "secret" },
      ...RETRIES,
    ],
  },
  VERSION: {
    title: "Version",
    description: "requires a version of another service",
    initial: { version: { service: "", range: ">=1.0.0" } },
    fields: [
      { path: "version.service", title: "Service", note: "name without a cluster; must exist in every cluster of the target stage", of: "text" },
      { path: "version.range", title: "Version range", note: "npm syntax, such as ^1.2", of: "text" },
      ...RETRIES,
    ],
  },
  MANUAL: { title: "Manual", description: "requires a manual confirmation", initial: { instructions: "" }, fields: [{ path: "instructions", title: "Instructions", of: "long" }] },
  EXTERNAL: {
    title: "External",
    description: "waits for the decision of another system",
    initial: { account: "" },
    fields: [
      { path: "account", title: "Service account", of: "text" },
      { path: "timeoutSeconds", title: "Timeout", note: "seconds; 0: no timeout", of: "number" },
    ],
  },
  WORKFLOW: { title: "Workflow", description: "steps run in order", initial: { steps: [{ name: "wait", type: "WAIT", waitSeconds: 60 }] }, fields: [] },
};

const { APPROVAL, JOB, METRIC, HTTP, VERSION } = GATE_KINDS;

/** Kinds of steps in a workflow. */
export const STEP_KINDS: Readonly<Record<StepType, GateKind>> = {
  JOB,
  METRIC,
  HTTP,
  VERSION,
  APPROVAL,
  WAIT: { title: "Wait", description: "pauses for a fixed time", initial: { waitSeconds: 60 }, fields: [{ path: "waitSeconds", title: "Seconds", of: "number" }] },
};

const isMap = (value: unknown): value is Record<string, unknown> => typeof value === "object" && value !== null && !Array.isArray(value);

/** Value at a path; undefined: not set. */
export function at(value: unknown, path: string): unknown {
  return path.split(".").reduce<unknown>((inner, name) => (isMap(inner) ? inner[name] : undefined), value);
}

/** Copy with another value at a path; undefined removes it. */
export function withAt<Whole extends Readonly<Record<string, unknown>>>(value: Whole, path: string, next: unknown): Whole {
  const [name = "", ...rest] = path.split(".");
  const own = rest.length === 0 ? next : withAt(isMap(value[name]) ? value[name] : {}, rest.join("."), next);
  if (own !== undefined) return { ...value, [name]: own };
  return Object.fromEntries(Object.entries(value).filter(([key]) => key !== name)) as Whole;
}
