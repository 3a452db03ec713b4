// Explanations of a commit's state in one service.
import type { CommitStanding } from "../api/generated";

/** One sentence for each state; labels are in `ui/states`. */
export const COMMIT_TEXTS: Readonly<Record<CommitStanding, string>> = {
  LIVE: "Running in this service.",
  SUPERSEDED: "A newer commit has replaced it.",
  UNCHANGED: "It changes no file that this service renders.",
  HELD: "The service does not take new commits now.",
  RENDERING: "Rendering manifests.",
  OFFERING: "The agent has not fetched the manifests yet.",
  APPLYING: "The agent is applying the manifests.",
  CONFIRMING: "Deletions need confirmation before the rollout continues.",
  BECOMING_HEALTHY: "Applied; some objects are not healthy yet.",
  FAILED: "Rollout failed.",
};
