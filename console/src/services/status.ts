// What the states of the API mean to a person.
import type { Tone } from "../ui/Status";

type Shown = { readonly tone: Tone; readonly word: string };

const SERVICE: Record<string, Shown> = {
  HEALTHY: { tone: "ok", word: "Healthy" },
  SYNCED: { tone: "busy", word: "Applied" },
  STALE: { tone: "busy", word: "On its way" },
  FAILED: { tone: "bad", word: "Failed" },
  PAUSED: { tone: "idle", word: "Paused" },
};

const COMPONENT: Record<string, Shown> = {
  RUNNING: { tone: "ok", word: "Running" },
  PENDING: { tone: "busy", word: "Pending" },
  FAILED: { tone: "bad", word: "Failed" },
  PAUSED: { tone: "idle", word: "Paused" },
};

const UNKNOWN: Shown = { tone: "idle", word: "Unknown" };

/** Tone and word of a service's status. */
export const serviceStatus = (status: string): Shown => SERVICE[status] ?? { ...UNKNOWN, word: status };

/** Tone and word of a component's state; null: nothing is known of it yet. */
export const componentState = (state: string | null): Shown =>
  state === null ? UNKNOWN : (COMPONENT[state] ?? { ...UNKNOWN, word: state });
