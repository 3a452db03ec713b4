// What a metric gate has measured, out of the sentence in which it says so.

export type Limit = { readonly comparison: string; readonly threshold: number };

/** The numbers of `0.4, 1.2, …, wanted at most 1`; none where the sentence says something else. */
export function measured(reason: string): readonly number[] {
  const found = /^([-+.\deE, ]+?)(?:, …)?(?: of the baseline)?, wanted /.exec(reason);
  if (found?.[1] === undefined) return [];
  return found[1].split(",").map(Number).filter(Number.isFinite);
}

const HOLDS: Readonly<Record<string, (value: number, limit: number) => boolean>> = {
  BELOW: (value, limit) => value < limit,
  AT_MOST: (value, limit) => value <= limit,
  ABOVE: (value, limit) => value > limit,
  AT_LEAST: (value, limit) => value >= limit,
};

/** Whether a value is within its limit. */
export const within = (value: number, { comparison, threshold }: Limit): boolean => HOLDS[comparison]?.(value, threshold) ?? true;
