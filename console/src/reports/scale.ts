// Scales of charts.

/** Whole numbers at equal distances from 0 to at least `max`, at most six. */
export function ticksTo(max: number): readonly number[] {
  const rough = Math.max(1, max / 5);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = Math.max(1, ([1, 2, 5, 10].find((factor) => factor * power >= rough) ?? 10) * power);
  return Array.from({ length: Math.max(1, Math.ceil(max / step)) + 1 }, (_, index) => index * step);
}

/** Change from one value to another in words; empty without a value to compare. */
export function trendOf(now: number | null, before: number | null): string {
  if (now === null || before === null || before === 0) return "";
  const percent = Math.round(((now - before) / before) * 100);
  return percent === 0 ? "unchanged" : `${percent > 0 ? "▲" : "▼"} ${Math.abs(percent)}%`;
}
