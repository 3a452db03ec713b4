// Formats durations and times.

const STEPS: readonly (readonly [number, string])[] = [
  [86_400, "d"],
  [3_600, "h"],
  [60, "m"],
  [1, "s"],
];

/** Formats as `3m`, `2h 5m` or `4d`: at most two units, whole seconds. */
export function duration(milliseconds: number): string {
  const seconds = Math.max(0, Math.floor(milliseconds / 1000));
  const index = STEPS.findIndex(([size]) => seconds >= size);
  const step = STEPS[index];
  if (step === undefined) return "0s";
  const whole = `${Math.floor(seconds / step[0])}${step[1]}`;
  const next = STEPS[index + 1];
  const rest = next === undefined ? 0 : Math.floor((seconds % step[0]) / next[0]);
  return next !== undefined && rest > 0 && index > 0 ? `${whole} ${rest}${next[1]}` : whole;
}

/** Formats as `2026-11-21 14:02:09`, in the user's time zone. */
export function exactly(time: string): string {
  const date = new Date(time);
  return Number.isNaN(date.getTime()) ? time : date.toLocaleString("sv-SE");
}
