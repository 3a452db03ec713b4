import { useMemo } from "react";
import type { MapRowFragment } from "../api/generated";
import { counted } from "../text/counts";
import { useParam } from "../ui/useParam";
import { countOf } from "./layout";
import { count, MARKS } from "./marks";

const SHAPES: Record<string, string> = { F: "✕", A: "▲", P: "◐", S: "◐", H: "●", Z: "○" };

/** How many services are in each state; each figure is a filter. */
export function Summary({ rows }: { readonly rows: readonly MapRowFragment[] }) {
  const [status, filter] = useParam("status");
  const counts = useMemo(() => count(rows), [rows]);
  const total = countOf(rows);
  return (
    <ul className="summary" aria-label="Services by state">
      <li>
        <button type="button" aria-pressed={status === ""} onClick={() => filter("")}>
          <strong>{total.toLocaleString()}</strong>
          <span>
            {total === 1 ? "service" : "services"} in {counted(rows.length, "cluster")}
          </span>
        </button>
      </li>
      {MARKS.map(({ letter, word, tone, status: own }) => (
        <li key={letter}>
          <button
            type="button"
            className={counts.has(letter) ? `tone-${tone}` : "none"}
            aria-pressed={status === own}
            onClick={() => filter(status === own ? "" : own)}
          >
            <strong>
              <span aria-hidden="true">{SHAPES[letter]}</span> {(counts.get(letter) ?? 0).toLocaleString()}
            </strong>
            <span>{word}</span>
          </button>
        </li>
      ))}
    </ul>
  );
}
