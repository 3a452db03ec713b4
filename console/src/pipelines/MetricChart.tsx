import { useState } from "react";
import { measured, within, type Limit } from "./measured";

type Point = { readonly at: number; readonly values: readonly number[] };

const WIDTH = 600;
const HEIGHT = 120;
const MOST = 200;

/** Each answer while the page is open, the newest last. */
function useSeen(reason: string, attempt: number): readonly Point[] {
  const key = `${attempt} ${reason}`;
  const [seen, see] = useState<{ readonly key: string; readonly points: readonly Point[] }>({ key: "", points: [] });
  if (seen.key === key) return seen.points;
  const values = measured(reason);
  const points = values.length === 0 ? seen.points : [...seen.points, { at: seen.points.length, values }].slice(-MOST);
  see({ key, points });
  return points;
}

type Props = { readonly reason: string; readonly attempt: number; readonly limit: Limit };

/** What a query has answered against its limit, one column an answer; the sentence beside it says the same. */
export function MetricChart({ reason, attempt, limit }: Props) {
  const points = useSeen(reason, attempt);
  if (points.length === 0) return null;
  const all = [...points.flatMap(({ values }) => values), limit.threshold, 0];
  const low = Math.min(...all);
  const span = Math.max(...all) - low || 1;
  const y = (value: number) => HEIGHT - 6 - ((value - low) / span) * (HEIGHT - 12);
  const x = (index: number) => (points.length === 1 ? WIDTH / 2 : (index / (points.length - 1)) * (WIDTH - 20) + 10);
  return (
    <figure className="metric">
      <svg viewBox={`0 0 ${WIDTH} ${HEIGHT}`} preserveAspectRatio="none" role="img" aria-label={`Measured: ${reason}`}>
        <line className="limit" x1={0} x2={WIDTH} y1={y(limit.threshold)} y2={y(limit.threshold)} />
        {points.flatMap(({ at, values }, index) =>
          values.map((value, series) => <circle key={`${at} ${series}`} className={within(value, limit) ? "ok" : "bad"} cx={x(index)} cy={y(value)} r={4} />),
        )}
      </svg>
      <figcaption className="quiet">
        dashed: {limit.comparison.toLowerCase().replaceAll("_", " ")} {limit.threshold}; one column for each answer since this page was opened
      </figcaption>
    </figure>
  );
}
