import { useMemo } from "react";
import type { MapRowFragment } from "../api/generated";
import { counted } from "../text/counts";
import { useParam } from "../ui/useParam";
import { countOf } from "./layout";
import { count, STATUS_CODES } from "./statusCodes";

/** Number of services in each state; each number is a filter. */
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
      {STATUS_CODES.map(({ letter, state: { label, tone, shape }, status: own }) => (
        <li key={letter}>
          <button
            type="button"
            className={counts.has(letter) ? `tone-${tone}` : "none"}
            aria-pressed={status === own}
            onClick={() => filter(status === own ? "" : own)}
          >
            <strong>
              <span aria-hidden="true">{shape}</span> {(counts.get(letter) ?? 0).toLocaleString()}
            </strong>
            <span>{label}</span>
          </button>
        </li>
      ))}
    </ul>
  );
}
