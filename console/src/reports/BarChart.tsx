import { useState } from "react";
import { ticksTo } from "./scale";

type Row = { readonly title: string; readonly ok: number; readonly bad: number; readonly rest: number };
type Props = {
  readonly rows: readonly Row[];
  /** Index of the selected row; -1: none. */
  readonly selected: number;
  readonly onSelect: (index: number) => void;
};

const WIDTH = 1000;
const HEIGHT = 220;
const LEFT = 44;
const BOTTOM = 24;
const TOP = 8;
const MAX_TITLES = 10;

const words = ({ title, ok, bad, rest }: Row): string => `${title}: ${ok} healthy, ${bad} failed, ${rest} in progress`;

function Bar({ row, x, width, scale }: { readonly row: Row; readonly x: number; readonly width: number; readonly scale: number }) {
  let top = HEIGHT - BOTTOM;
  return (["ok", "bad", "rest"] as const).map((part) => {
    top -= row[part] * scale;
    return <rect key={part} className={part} x={x + width * 0.12} y={top} width={width * 0.76} height={row[part] * scale} />;
  });
}

/** Stacked bars over time with axes. A bar is a button that selects its period; focus and hover show its numbers. */
export function BarChart({ rows, selected, onSelect }: Props) {
  const [shown, show] = useState(-1);
  const ticks = ticksTo(Math.max(1, ...rows.map(({ ok, bad, rest }) => ok + bad + rest)));
  const scale = (HEIGHT - BOTTOM - TOP) / (ticks.at(-1) ?? 1);
  const width = (WIDTH - LEFT) / Math.max(1, rows.length);
  const every = Math.ceil(rows.length / MAX_TITLES);
  const current = rows[shown] ?? rows[selected];
  return (
    <figure className="chart">
      <p className="chart-note" aria-hidden="true">
        {current === undefined ? <span className="quiet">Select a bar to list its deployments</span> : words(current)}
        <span className="fill" />
        <span className="status ok">■ healthy</span> <span className="status bad">■ failed</span> <span className="status idle">■ in progress</span>
      </p>
      <svg viewBox={`0 0 ${WIDTH} ${HEIGHT}`} role="group" aria-label="Deployments per period">
        {ticks.map((tick) => (
          <g key={tick} className="tick" aria-hidden="true">
            <line x1={LEFT} x2={WIDTH} y1={HEIGHT - BOTTOM - tick * scale} y2={HEIGHT - BOTTOM - tick * scale} />
            <text x={LEFT - 6} y={HEIGHT - BOTTOM - tick * scale + 4} textAnchor="end">
              {tick.toLocaleString("en")}
            </text>
          </g>
        ))}
        {rows.map((row, index) => (
          <g
            key={row.title}
            className={index === selected ? "bar-of selected" : "bar-of"}
            role="button"
            tabIndex={0}
            aria-label={words(row)}
            aria-pressed={index === selected}
            onClick={() => onSelect(index === selected ? -1 : index)}
            onKeyDown={(event) => {
              if (event.key !== "Enter" && event.key !== " ") return;
              event.preventDefault();
              onSelect(index === selected ? -1 : index);
            }}
            onMouseEnter={() => show(index)}
            onMouseLeave={() => show(-1)}
            onFocus={() => show(index)}
            onBlur={() => show(-1)}
          >
            <rect className="target" x={LEFT + index * width} y={TOP} width={width} height={HEIGHT - BOTTOM - TOP} />
            <Bar row={row} x={LEFT + index * width} width={width} scale={scale} />
            {index % every === 0 && (
              <text className="title" x={LEFT + (index + 0.5) * width} y={HEIGHT - 6} textAnchor="middle" aria-hidden="true">
                {row.title}
              </text>
            )}
          </g>
        ))}
      </svg>
    </figure>
  );
}
