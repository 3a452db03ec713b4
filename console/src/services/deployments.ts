// Deployments of a service, joined with their revisions, causes and approvals.
import type { ApprovalsQuery, HistoryQuery } from "../api/generated";

type Revision = HistoryQuery["revisions"]["edges"][number]["node"];
type Entry = HistoryQuery["ledger"]["edges"][number]["node"];
type Recorded = HistoryQuery["deploymentHistory"][number];
type PipelineEvent = NonNullable<ApprovalsQuery["pipeline"]>["history"][number];

export type Cause = "Commit" | "Release" | "Rollback";

export type ServiceDeploymentRow = Recorded & {
  readonly revision: Revision | undefined;
  readonly cause: Cause;
  /** Digest of its manifests; null: they are no longer known. */
  readonly digest: string | null;
  /** Id of the pipeline's release; empty for the other causes. */
  readonly release: string;
  readonly message: string;
};

const CAUSES: Readonly<Record<string, Cause>> = { rendered: "Commit", promoted: "Release", "rolled-back": "Rollback" };

/** Rows of the history, newest first. */
export function deploymentsOf({ deploymentHistory, revisions, ledger }: HistoryQuery): readonly ServiceDeploymentRow[] {
  const known = new Map(revisions.edges.map(({ node }) => [node.id, node]));
  const begun = new Map<number, Entry>();
  for (const { node } of ledger.edges) if (CAUSES[node.stage] !== undefined && !begun.has(node.sequence)) begun.set(node.sequence, node);
  return deploymentHistory.map((recorded) => {
    const entry = begun.get(recorded.sequence);
    const revision = known.get(recorded.revisionId ?? entry?.revisionId ?? "");
    const release = entry?.detail["release"];
    return {
      ...recorded,
      revision,
      cause: CAUSES[entry?.stage ?? ""] ?? "Commit",
      digest: entry?.digest ?? revision?.digest ?? null,
      release: typeof release === "string" ? release : "",
      message: entry?.message ?? "",
    };
  });
}

/** Approvals of a release, such as `ann (sign-off)`. */
export const approvalsOf = (release: string, history: readonly PipelineEvent[]): readonly string[] =>
  release === "" ? [] : [...new Set(history.filter(({ releaseId, text }) => releaseId === release && text.startsWith("approved")).map(({ actor, place }) => (place === "" ? actor : `${actor} (${place})`)))];

/** Sync of some objects of a service; no deployment. */
export type PartialSync = Entry & { readonly result: string };

/** Syncs of some objects in the ledger, newest first. */
export const partialSyncsOf = ({ ledger }: HistoryQuery): readonly PartialSync[] =>
  ledger.edges.flatMap(({ node }) => (node.stage === "objects-synced" ? [{ ...node, result: String(node.detail["result"]) }] : []));
