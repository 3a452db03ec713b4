// The lines of many logs in one list, bounded, in the order of their times where they have one.
import { plain } from "../text/escapes";

export type Line = { readonly pod: string; readonly at: string; readonly text: string };

export const MOST_LINES = 100_000;
const LONGEST = 16_384;

/** Splits what comes in pieces into lines; the rest of a line waits for its end. */
export class LineReader {
  private rest = "";

  constructor(private readonly pod: string) {}

  /** The lines that are complete now. */
  take(piece: string): Line[] {
    const parts = (this.rest + piece).split("\n");
    this.rest = (parts.pop() ?? "").slice(0, LONGEST);
    return parts.map((part) => this.parse(part));
  }

  private parse(part: string): Line {
    const space = part.indexOf(" ");
    const at = part.slice(0, space);
    const isTimed = /^\d{4}-\d\d-\d\dT[\d:.]+(Z|[+-]\d\d:\d\d)$/.test(at);
    return { pod: this.pod, at: isTimed ? at : "", text: plain((isTimed ? part.slice(space + 1) : part).slice(0, LONGEST)) };
  }
}

/** Known lines and new ones, by time, the oldest left out where there are too many. */
export function join(known: readonly Line[], fresh: readonly Line[]): readonly Line[] {
  const sorted = [...fresh].sort((left, right) => (left.at < right.at ? -1 : left.at > right.at ? 1 : 0));
  const last = known.at(-1);
  const isInOrder = last === undefined || sorted[0] === undefined || last.at <= sorted[0].at;
  const all = isInOrder ? [...known, ...sorted] : [...known, ...sorted].sort((left, right) => (left.at < right.at ? -1 : left.at > right.at ? 1 : 0));
  return all.length > MOST_LINES ? all.slice(all.length - MOST_LINES) : all;
}
