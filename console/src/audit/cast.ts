// asciicast v2: a header line, followed by one line per event.

/** `at`: seconds from the start. */
export type CastEvent = { readonly at: number; readonly text: string };
export type Cast = { readonly width: number; readonly height: number; readonly events: readonly CastEvent[] };

const bounded = (value: unknown, max: number, fallback: number): number =>
  typeof value === "number" && value >= 1 && value <= max ? Math.floor(value) : fallback;

function lineOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

/** Parses a recording; skips invalid lines. */
export function parseCast(text: string): Cast {
  const lines = text.split("\n").filter((line) => line !== "").map(lineOf);
  const head = lines[0];
  const { width, height } = typeof head === "object" && head !== null ? (head as Record<string, unknown>) : {};
  const events = lines.slice(1).flatMap((line) => {
    if (!Array.isArray(line)) return [];
    const [at, kind, data] = line as readonly unknown[];
    return typeof at === "number" && kind === "o" && typeof data === "string" ? [{ at, text: data }] : [];
  });
  return { width: bounded(width, 500, 80), height: bounded(height, 200, 24), events };
}
