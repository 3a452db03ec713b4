// All states that the console shows. Every screen takes label, colour and shape from this module.
import type { AccessRequestState, AuditRowFragment, ChangeFragment, CommitStanding, GateJobQuery, SecretRotationPhase, ServiceState, ServiceStatusCode } from "../api/generated";

/** Colour of a state; the names are those of the theme. */
export type Tone = "ok" | "busy" | "warn" | "bad" | "idle";

export type State = { readonly label: string; readonly tone: Tone; readonly shape: string };

const SHAPES: Readonly<Record<Tone, string>> = { ok: "●", busy: "◐", warn: "▲", bad: "✕", idle: "○" };

const state = (tone: Tone, label: string): State => ({ label, tone, shape: SHAPES[tone] });

export const STATES = {
  healthy: state("ok", "Healthy"),
  ready: state("ok", "Ready"),
  live: state("ok", "Live"),
  connected: state("ok", "Connected"),
  delivered: state("ok", "Delivered"),
  current: state("ok", "Current"),
  passed: state("ok", "Passed"),
  succeeded: state("ok", "Succeeded"),
  noChanges: state("ok", "No changes"),
  completed: state("ok", "Completed"),
  granted: state("ok", "Granted"),
  allowed: state("ok", "Allowed"),
  added: state("ok", "added"),
  verified: state("ok", "Verified"),
  active: state("ok", "Active"),

  progressing: state("busy", "Progressing"),
  applied: state("busy", "Applied, waiting for health"),
  rendering: state("busy", "Rendering"),
  applying: state("busy", "Applying"),
  waitingForAgent: state("busy", "Waiting for agent"),
  running: state("busy", "Running"),
  verifying: state("busy", "Verifying"),
  changed: state("busy", "changed"),

  awaitingApproval: state("warn", "Awaiting approval"),
  waiting: state("warn", "Waiting"),
  blocked: state("warn", "Blocked"),
  dryRun: state("idle", "Dry run"),
  outOfSync: state("warn", "Out of sync"),
  drifted: state("warn", "Drifted"),
  offline: state("warn", "Offline"),
  recorded: state("warn", "Recorded"),
  warning: state("warn", "Warning"),
  gone: state("warn", "Gone"),
  notRegistered: state("bad", "Not registered"),

  failed: state("bad", "Failed"),
  denied: state("bad", "Denied"),
  unavailable: state("bad", "Unavailable"),
  removed: state("bad", "removed"),

  suspended: state("idle", "Suspended"),
  pinned: state("idle", "Pinned"),
  pending: state("idle", "Pending"),
  notVerified: state("idle", "Not verified"),
  unused: state("idle", "Unused"),
  superseded: state("idle", "Superseded"),
  cancelled: state("idle", "Cancelled"),
  neverConnected: state("idle", "Never connected"),
  rolledBack: state("idle", "Rolled back"),
  revoked: state("idle", "Revoked"),
  expired: state("idle", "Expired"),
  destroyed: state("idle", "Destroyed"),
  retained: state("idle", "Retained"),
  noValue: state("idle", "No value"),
  secret: state("idle", "Secret"),
  normal: state("idle", "Normal"),
  disabled: state("idle", "Disabled"),
  frozen: state("warn", "Frozen"),
  unknown: state("idle", "Unknown"),
} as const satisfies Record<string, State>;

const SERVICE: Readonly<Record<ServiceState, State>> = {
  HEALTHY: STATES.healthy,
  SYNCED: STATES.applied,
  STALE: STATES.progressing,
  OUT_OF_SYNC: STATES.outOfSync,
  DRIFTED: STATES.drifted,
  PINNED: STATES.pinned,
  AWAITING_APPROVAL: STATES.awaitingApproval,
  DRY_RUN: STATES.dryRun,
  FAILED: STATES.failed,
  PAUSED: STATES.suspended,
};

/** State of a service's status. */
export const serviceState = (status: string, behind: number | null = null): State => {
  const known: Readonly<Record<string, State | undefined>> = SERVICE;
  const found = known[status] ?? STATES.unknown;
  return found === STATES.pinned && behind !== null ? { ...found, label: `Pinned (${commitsBehind(behind)})` } : found;
};

/** Upper limit of the API's count of commits. */
const MAX_BEHIND = 1000;

/** Commits on the ref of a service that a rollback keeps from it. */
export const commitsBehind = (commits: number): string => `${commits.toLocaleString("en")}${commits < MAX_BEHIND ? "" : " or more"} behind`;

/** State of a cell of the fleet map, in more detail than a service's status. */
export const CELL_STATES: Readonly<Record<ServiceStatusCode, State>> = {
  FAILED: STATES.failed,
  AWAITING: STATES.awaitingApproval,
  DRY_RUN: STATES.dryRun,
  PROGRESSING: STATES.progressing,
  OUT_OF_SYNC: STATES.outOfSync,
  DRIFTED: STATES.drifted,
  PINNED: STATES.pinned,
  SYNCED: STATES.applied,
  HEALTHY: STATES.healthy,
  PAUSED: STATES.suspended,
};

const COMPONENT: Readonly<Record<string, State>> = {
  RUNNING: STATES.healthy,
  PENDING: STATES.progressing,
  FAILED: STATES.failed,
  PAUSED: STATES.suspended,
};

/** State of an object in a cluster; null: its status expresses no health. */
export const componentState = (reported: string | null): State => COMPONENT[reported ?? ""] ?? STATES.unknown;

const STAGE: Readonly<Record<string, State>> = {
  HEALTHY: STATES.healthy,
  PROGRESSING: STATES.progressing,
  FAILED: STATES.failed,
};

/** State of a stage's health. */
export const stageState = (health: string): State => STAGE[health] ?? STATES.unknown;

const GATE: Readonly<Record<string, State>> = {
  OPEN: STATES.passed,
  PENDING: STATES.pending,
  RUNNING: STATES.waiting,
  CLOSED: STATES.failed,
};

/** State of a gate, or of a step of a workflow. */
export const gateState = (status: string): State => GATE[status] ?? STATES.unknown;

export const JOB_STATES: Readonly<Record<NonNullable<GateJobQuery["clusterJob"]>["phase"], State>> = {
  PENDING: STATES.pending,
  RUNNING: STATES.running,
  SUCCEEDED: STATES.succeeded,
  FAILED: STATES.failed,
  CANCELLED: STATES.cancelled,
};

/** State of a commit in one service. */
export const COMMIT_STATES: Readonly<Record<CommitStanding, State>> = {
  LIVE: STATES.live,
  SUPERSEDED: STATES.superseded,
  UNCHANGED: STATES.noChanges,
  HELD: STATES.blocked,
  RENDERING: STATES.rendering,
  OFFERING: STATES.waitingForAgent,
  APPLYING: STATES.applying,
  CONFIRMING: STATES.awaitingApproval,
  BECOMING_HEALTHY: STATES.applied,
  FAILED: STATES.failed,
};

export const REQUEST_STATES: Readonly<Record<AccessRequestState, State>> = {
  PENDING: STATES.awaitingApproval,
  APPROVED: STATES.granted,
  REFUSED: STATES.denied,
  REVOKED: STATES.revoked,
};

export const ROTATION_STATES: Readonly<Record<SecretRotationPhase, State>> = {
  ROLLING: STATES.progressing,
  VERIFYING: STATES.verifying,
  READY: STATES.awaitingApproval,
  HELD: STATES.failed,
  REVOKED: STATES.completed,
  ABORTED: STATES.rolledBack,
};

export const CHANGE_STATES: Readonly<Record<ChangeFragment["change"], State>> = {
  ADDED: STATES.added,
  REMOVED: STATES.removed,
  CHANGED: STATES.changed,
};

/** State of an audit row's verdict. */
export const auditState = (verdict: AuditRowFragment["verdict"]): State => (verdict === "refused" ? STATES.denied : STATES.allowed);

/** State of a Kubernetes Event's type. */
export const eventState = (type: string | null): State => (type === "Warning" ? STATES.warning : STATES.normal);
