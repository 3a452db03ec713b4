// What the phases of a rotation mean, and what can be decided in each.
import type { SecretRotationDecision, SecretRotationPhase, SecretRowFragment } from "../api/generated";
import type { Tone } from "../ui/Status";

type Phase = { readonly tone: Tone; readonly word: string; readonly text: string; readonly decisions: readonly SecretRotationDecision[] };

export const PHASES: Record<SecretRotationPhase, Phase> = {
  ROLLING: { tone: "busy", word: "Rolling out", text: "Services are given the new version, a few at a time.", decisions: ["ABORT"] },
  VERIFYING: { tone: "busy", word: "Proving itself", text: "All have the new version; they have to stay healthy with it for a while.", decisions: ["ABORT"] },
  READY: { tone: "warn", word: "Waits for a person", text: "Nobody uses the old version any more: it can be destroyed.", decisions: ["REVOKE", "ABORT"] },
  HELD: { tone: "bad", word: "Held", text: "Something went wrong on the way.", decisions: ["RESUME", "ABORT"] },
  REVOKED: { tone: "ok", word: "Done", text: "The old version is destroyed.", decisions: [] },
  ABORTED: { tone: "idle", word: "Taken back", text: "Services have the old version again.", decisions: [] },
};

export const DECISIONS: Record<SecretRotationDecision, string> = {
  RESUME: "Go on",
  REVOKE: "Destroy the old version",
  ABORT: "Go back to the old one",
};

/** Tone and word of a secret on one line: what is wrong first. */
export function stateOf({ problem, rotation, currentVersion }: SecretRowFragment): readonly [Tone, string] {
  if (problem !== null) return ["bad", "Not read"];
  if (rotation !== null && rotation.endedAt === null) return [PHASES[rotation.phase].tone, PHASES[rotation.phase].word];
  return currentVersion === null ? ["idle", "No value yet"] : ["ok", "In use"];
}

const PLACES = { VAULT: "Vault", KUBERNETES: "a Kubernetes Secret", ENVIRONMENT: "the environment" };

/** Where the value is kept, in words. */
export function keptIn({ source }: SecretRowFragment): string {
  if (source === null) return "sealed here";
  return `${PLACES[source.kind]} ${[source.store, source.path, source.key].filter((part) => part !== null && part !== "").join(" / ")}`;
}
