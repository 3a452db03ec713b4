// `j` and `k` move the focus through the rows of a page's lists; Enter opens the focused link.
import { useEffect } from "react";
import { typing } from "../app/keys";

function links(): readonly HTMLAnchorElement[] {
  return [...document.querySelectorAll<HTMLAnchorElement>(".table tbody tr td:first-child a, .table tbody tr td.pick + td a, a[data-row]")];
}

export function useRowKeys(): void {
  useEffect(() => {
    const onKey = (event: KeyboardEvent) => {
      const step = event.key === "j" ? 1 : event.key === "k" ? -1 : 0;
      if (step === 0 || typing(event)) return;
      const all = links();
      const at = all.findIndex((link) => link === document.activeElement);
      const next = at === -1 ? 0 : Math.min(all.length - 1, Math.max(0, at + step));
      all[next]?.focus();
    };
    addEventListener("keydown", onKey);
    return () => removeEventListener("keydown", onKey);
  }, []);
}
