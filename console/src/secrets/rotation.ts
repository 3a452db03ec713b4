// Explanations of secret rotations, and the decisions that each phase allows.
import type { SecretRotationDecision, SecretRotationPhase, SecretRowFragment } from "../api/generated";
import { ROTATION_STATES, STATES, type State } from "../ui/states";

type Phase = { readonly text: string; readonly decisions: readonly SecretRotationDecision[] };

export const PHASES: Record<SecretRotationPhase, Phase> = {
  ROLLING: { text: "Services receive the new version in batches.", decisions: ["ABORT"] },
  VERIFYING: { text: "All services have the new version and must stay healthy for the soak time.", decisions: ["ABORT"] },
  READY: { text: "No service uses the old version. It can be destroyed.", decisions: ["REVOKE", "ABORT"] },
  HELD: { text: "The rotation stopped after a failure.", decisions: ["RESUME", "ABORT"] },
  REVOKED: { text: "The old version is destroyed.", decisions: [] },
  ABORTED: { text: "All services use the old version again.", decisions: [] },
};

export const DECISIONS: Record<SecretRotationDecision, string> = {
  RESUME: "Resume rotation",
  REVOKE: "Destroy old version",
  ABORT: "Roll back",
};

/** Messages after a decision. */
export const DECIDED: Record<SecretRotationDecision, string> = {
  RESUME: "Rotation resumed",
  REVOKE: "Old version destroyed",
  ABORT: "Rollback started",
};

/** State of a secret in a list; a problem has precedence over a rotation. */
export function stateOf({ problem, rotation, currentVersion }: SecretRowFragment): State {
  if (problem !== null) return STATES.failed;
  if (rotation !== null && rotation.endedAt === null) return ROTATION_STATES[rotation.phase];
  return currentVersion === null ? STATES.noValue : STATES.ready;
}
