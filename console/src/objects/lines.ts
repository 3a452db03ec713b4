// Merges the lines of several logs into one bounded list, ordered by time.
import { plain } from "../text/escapes";

export type Line = { readonly pod: string; readonly at: string; readonly text: string };

export const MAX_LINES = 100_000;
const MAX_LINE_LENGTH = 16_384;

/** Splits a stream into lines; keeps an incomplete line until the rest arrives. */
export class LineReader {
  private rest = "";

  constructor(private readonly pod: string) {}

  /** Returns the complete lines. */
  take(piece: string): Line[] {
    const parts = (this.rest + piece).split("\n");
    this.rest = (parts.pop() ?? "").slice(0, MAX_LINE_LENGTH);
    return parts.map((part) => this.parse(part));
  }

  private parse(part: string): Line {
    const space = part.indexOf(" ");
    const at = part.slice(0, space);
    const isTimed = /^\d{4}-\d\d-\d\dT[\d:.]+(Z|[+-]\d\d:\d\d)$/.test(at);
    return { pod: this.pod, at: isTimed ? at : "", text: plain((isTimed ? part.slice(space + 1) : part).slice(0, MAX_LINE_LENGTH)) };
  }
}

/** Adds new lines by time; drops the oldest above `MAX_LINES`. */
export function join(known: readonly Line[], fresh: readonly Line[]): readonly Line[] {
  const sorted = [...fresh].sort((left, right) => (left.at < right.at ? -1 : left.at > right.at ? 1 : 0));
  const last = known.at(-1);
  const isInOrder = last === undefined || sorted[0] === undefined || last.at <= sorted[0].at;
  const all = isInOrder ? [...known, ...sorted] : [...known, ...sorted].sort((left, right) => (left.at < right.at ? -1 : left.at > right.at ? 1 : 0));
  return all.length > MAX_LINES ? all.slice(all.length - MAX_LINES) : all;
}
