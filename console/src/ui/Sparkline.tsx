import "./sparkline.css";

const WIDTH = 120;
const HEIGHT = 28;

type Props = { readonly values: readonly number[]; readonly label: string };

/** Small line of values over time, from zero to their maximum. */
export function Sparkline({ values, label }: Props) {
  if (values.length < 2) return null;
  const top = Math.max(...values) || 1;
  const points = values.map((value, index) => `${((index / (values.length - 1)) * WIDTH).toFixed(1)},${(HEIGHT - 2 - (value / top) * (HEIGHT - 4)).toFixed(1)}`);
  return (
    <svg className="sparkline" viewBox={`0 0 ${WIDTH} ${HEIGHT}`} width={WIDTH} height={HEIGHT} role="img" aria-label={label}>
      <polyline points={points.join(" ")} />
    </svg>
  );
}

type Bar = { readonly value: number; readonly tone: string };

/** Small bars, one for each event. */
export function SparkBars({ bars, label }: { readonly bars: readonly Bar[]; readonly label: string }) {
  if (bars.length === 0) return null;
  const top = Math.max(...bars.map(({ value }) => value)) || 1;
  const width = Math.min(10, WIDTH / bars.length);
  return (
    <svg className="sparkline" viewBox={`0 0 ${WIDTH} ${HEIGHT}`} width={WIDTH} height={HEIGHT} role="img" aria-label={label}>
      {bars.map(({ value, tone }, index) => {
        const height = Math.max(3, (value / top) * HEIGHT);
        return <rect key={index} className={tone} x={index * width} y={HEIGHT - height} width={Math.max(1, width - 2)} height={height} />;
      })}
    </svg>
  );
}
