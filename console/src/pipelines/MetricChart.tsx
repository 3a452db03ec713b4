import { counted } from "../text/counts";
import { exactly } from "../text/time";
import { Age } from "../ui/Age";
import type { Measured } from "./gatesteps";
import { formatLimit, within, type Limit } from "./limits";

type Props = { readonly measured: Measured; readonly limit: Limit };

const WIDTH = 600;
const HEIGHT = 120;
const MARGIN = 8;

const short = (value: number): string => Number(value.toPrecision(4)).toString();

/** Scales of the chart; zero and the limit are always visible. */
function scaleOf(measured: Measured, { threshold }: Limit) {
  const all = [...measured.flatMap(({ values }) => values), threshold, 0];
  const [low, high] = [Math.min(...all), Math.max(...all)];
  const y = (value: number) => HEIGHT - MARGIN - ((value - low) / (high - low || 1)) * (HEIGHT - 2 * MARGIN);
  const x = (index: number) => (measured.length === 1 ? WIDTH / 2 : MARGIN + (index / (measured.length - 1)) * (WIDTH - 2 * MARGIN));
  return { low, high, x, y };
}

/** Chart of measurements with the limit: one column per measurement, the newest on the right. The label repeats it as text. */
export function MetricChart({ measured, limit }: Props) {
  const [first, last] = [measured[0], measured.at(-1)];
  if (first === undefined || last === undefined) return null;
  const { low, high, x, y } = scaleOf(measured, limit);
  const beyond = measured.filter(({ passed }) => !passed).length;
  const single = measured.every(({ values }) => values.length === 1);
  const summary = `${counted(measured.length, "measurement")}, limit ${formatLimit(limit)}: ${beyond} failed. Latest: ${last.values.map(short).join(", ")}.`;
  return (
    <figure className="metric">
      <div className="plot">
        <span className="scale" aria-hidden="true">
          <span>{short(high)}</span>
          <span>{short(low)}</span>
        </span>
        <svg viewBox={`0 0 ${WIDTH} ${HEIGHT}`} preserveAspectRatio="none" role="img" aria-label={summary}>
          <line className="limit" x1={0} x2={WIDTH} y1={y(limit.threshold)} y2={y(limit.threshold)} />
          {single && <polyline className="course" points={measured.map(({ values }, index) => `${x(index)},${y(values[0] ?? 0)}`).join(" ")} />}
          {measured.flatMap(({ at, release, values }, index) =>
            values.map((value, series) => (
              <line key={`${index} ${series}`} className={within(value, limit) ? "dot ok" : "dot bad"} x1={x(index)} x2={x(index)} y1={y(value)} y2={y(value)}>
                <title>{`${short(value)} for #${release}, ${exactly(at)}`}</title>
              </line>
            )),
          )}
        </svg>
      </div>
      <figcaption className="quiet">
        Dashed line: {formatLimit(limit)}. {counted(measured.length, "measurement")} since <Age at={first.at} />, {beyond} failed.
      </figcaption>
    </figure>
  );
}
