// The letters of the map: one a service. Here they get their words.
import type { ServiceDeploymentStatus } from "../api/generated";
import type { Tone } from "../ui/Status";

export type Mark = {
  readonly letter: string;
  readonly word: string;
  readonly tone: Tone;
  /** What lists filter by; null: the mark is a part of that status. */
  readonly status: ServiceDeploymentStatus;
};

/** What is worst comes first. */
export const MARKS: readonly Mark[] = [
  { letter: "F", word: "Failed", tone: "bad", status: "FAILED" },
  { letter: "A", word: "Waits for a person", tone: "warn", status: "STALE" },
  { letter: "P", word: "On its way", tone: "busy", status: "STALE" },
  { letter: "S", word: "Applied", tone: "busy", status: "SYNCED" },
  { letter: "H", word: "Healthy", tone: "ok", status: "HEALTHY" },
  { letter: "Z", word: "Paused", tone: "idle", status: "PAUSED" },
];

const BY_LETTER = new Map(MARKS.map((mark) => [mark.letter, mark]));
const LETTERS: Record<string, string> = { HEALTHY: "H", SYNCED: "S", PROGRESSING: "P", FAILED: "F", PAUSED: "Z", AWAITING: "A" };

/** The word of a letter. */
export const wordOf = (letter: string): string => BY_LETTER.get(letter)?.word ?? "Unknown";

/** The letter of a mark that the API spells out. */
export const letterOf = (mark: string): string => LETTERS[mark] ?? "P";

/** How many services have each letter. */
export function count(rows: readonly { readonly services: string }[]): ReadonlyMap<string, number> {
  const counts = new Map<string, number>();
  for (const { services } of rows)
    for (const letter of services) counts.set(letter, (counts.get(letter) ?? 0) + 1);
  return counts;
}
