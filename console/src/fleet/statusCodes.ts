// Status codes of the fleet map: one letter for each service.
import type { ServiceState, ServiceStatusCode } from "../api/generated";
import { CELL_STATES, STATES, type State } from "../ui/states";

export type StatusCode = {
  readonly letter: string;
  readonly state: State;
  /** Status that lists filter by. */
  readonly status: ServiceState;
};

/** All codes, the most urgent first. */
export const STATUS_CODES: readonly StatusCode[] = [
  { letter: "F", state: CELL_STATES.FAILED, status: "FAILED" },
  { letter: "A", state: CELL_STATES.AWAITING, status: "AWAITING_APPROVAL" },
  { letter: "R", state: CELL_STATES.DRIFTED, status: "DRIFTED" },
  { letter: "O", state: CELL_STATES.OUT_OF_SYNC, status: "OUT_OF_SYNC" },
  { letter: "P", state: CELL_STATES.PROGRESSING, status: "STALE" },
  { letter: "S", state: CELL_STATES.SYNCED, status: "SYNCED" },
  { letter: "H", state: CELL_STATES.HEALTHY, status: "HEALTHY" },
  { letter: "N", state: CELL_STATES.PINNED, status: "PINNED" },
  { letter: "D", state: CELL_STATES.DRY_RUN, status: "DRY_RUN" },
  { letter: "Z", state: CELL_STATES.PAUSED, status: "PAUSED" },
];

/** Statuses that lists filter by, the most urgent first. */
export const STATUSES: readonly ServiceState[] = STATUS_CODES.map(({ status }) => status);

const BY_LETTER = new Map(STATUS_CODES.map(({ letter, state }) => [letter, state]));
const LETTERS: Record<ServiceStatusCode, string> = { HEALTHY: "H", SYNCED: "S", PROGRESSING: "P", OUT_OF_SYNC: "O", DRIFTED: "R", PINNED: "N", FAILED: "F", PAUSED: "Z", AWAITING: "A", DRY_RUN: "D" };

/** State of a letter. */
export const stateOfLetter = (letter: string): State => BY_LETTER.get(letter) ?? STATES.unknown;

/** Letter of a status code that the API spells out. */
export const letterOf = (code: ServiceStatusCode): string => LETTERS[code];

/** Number of services by letter. */
export function count(rows: readonly { readonly services: string }[]): ReadonlyMap<string, number> {
  const counts = new Map<string, number>();
  for (const { services } of rows)
    for (const letter of services) counts.set(letter, (counts.get(letter) ?? 0) + 1);
  return counts;
}
