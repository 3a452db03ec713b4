// Limit of a metric.

export type Limit = { readonly comparison: string; readonly threshold: number };

const HOLDS: Readonly<Record<string, (value: number, limit: number) => boolean>> = {
  BELOW: (value, limit) => value < limit,
  AT_MOST: (value, limit) => value <= limit,
  ABOVE: (value, limit) => value > limit,
  AT_LEAST: (value, limit) => value >= limit,
};

/** Whether a value is within its limit. */
export const within = (value: number, { comparison, threshold }: Limit): boolean => HOLDS[comparison]?.(value, threshold) ?? true;

/** Formats a limit as `at most 1`. */
export const formatLimit = ({ comparison, threshold }: Limit): string => `${comparison.toLowerCase().replaceAll("_", " ")} ${threshold}`;
