// Selected rows of a list: by click, with Shift for a range, or with `x` for the row that has the focus.
import { useCallback, useEffect, useMemo, useRef, useState } from "react";
import { typing } from "../app/keys";

export type Selection = {
  readonly chosen: ReadonlySet<string>;
  readonly toggle: (id: string, isRange: boolean) => void;
  readonly toggleAll: () => void;
  readonly clear: () => void;
  readonly isAll: boolean;
  /** True while there are no rows. */
  readonly isEmpty: boolean;
};

/** Maximum number of rows of one operation. */
export const MAX_CHOSEN = 500;

/** Ids between two rows, both included. */
function between(ids: readonly string[], from: string, to: string): readonly string[] {
  const [start, end] = [ids.indexOf(from), ids.indexOf(to)];
  return start === -1 || end === -1 ? [to] : ids.slice(Math.min(start, end), Math.max(start, end) + 1);
}

/** Selection among the shown rows. Rows that a filter hides are no longer selected. */
export function useSelection(ids: readonly string[]): Selection {
  const [marked, mark] = useState<ReadonlySet<string>>(new Set());
  const last = useRef<string | null>(null);
  const chosen = useMemo(() => new Set(ids.filter((id) => marked.has(id)).slice(0, MAX_CHOSEN)), [ids, marked]);
  useEffect(() => {
    const onKey = (event: KeyboardEvent) => {
      if (typing(event) || document.querySelector("dialog[open]") !== null) return;
      if (event.key === "Escape") mark(new Set());
      if (event.key.toLowerCase() !== "x" || event.ctrlKey || event.metaKey) return;
      const box = document.activeElement?.closest("tr")?.querySelector("td.pick input");
      box?.dispatchEvent(new MouseEvent("click", { shiftKey: event.shiftKey, bubbles: true, cancelable: true }));
    };
    addEventListener("keydown", onKey);
    return () => removeEventListener("keydown", onKey);
  }, []);
  const toggle = useCallback(
    (id: string, isRange: boolean) => {
      const isOn = !chosen.has(id);
      const changed = isRange && last.current !== null ? between(ids, last.current, id) : [id];
      last.current = id;
      const next = new Set(chosen);
      for (const row of changed) {
        if (isOn) next.add(row);
        else next.delete(row);
      }
      mark(next);
    },
    [chosen, ids],
  );
  const isAll = chosen.size > 0 && chosen.size === Math.min(ids.length, MAX_CHOSEN);
  return { chosen, toggle, toggleAll: () => mark(isAll ? new Set() : new Set(ids)), clear: () => mark(new Set()), isAll, isEmpty: ids.length === 0 };
}
