// Keyboard shortcuts of all pages. They are off while the user types into a field.
import { useEffect } from "react";
import { useLocation } from "wouter";
import { PAGES } from "./pages";

const FIELDS = new Set(["INPUT", "TEXTAREA", "SELECT"]);
const PATIENCE = 1200;

/** Whether a key press belongs to a field or to a browser shortcut. */
export function typing(event: KeyboardEvent): boolean {
  if (event.ctrlKey || event.metaKey || event.altKey) return true;
  const target = event.target;
  if (target instanceof HTMLInputElement && target.type === "checkbox") return false;
  return target instanceof HTMLElement && (FIELDS.has(target.tagName) || target.isContentEditable);
}

/** Opens a page on `g` followed by its letter. */
export function useJumpKeys(): void {
  const [, go] = useLocation();
  useEffect(() => {
    let since = Number.NEGATIVE_INFINITY;
    const onKey = (event: KeyboardEvent) => {
      if (typing(event)) return;
      if (event.key === "g") {
        since = event.timeStamp;
        return;
      }
      const page = PAGES.find(({ nav }) => nav?.key === event.key);
      if (page !== undefined && event.timeStamp - since < PATIENCE) go(page.path);
      since = Number.NEGATIVE_INFINITY;
    };
    addEventListener("keydown", onKey);
    return () => removeEventListener("keydown", onKey);
  }, [go]);
}
