// Height of table rows in this browser.
import { useSyncExternalStore } from "react";

export type Density = "dense" | "comfortable";

const KEY = "towline.density";
const listeners = new Set<() => void>();
let density: Density = localStorage.getItem(KEY) === "comfortable" ? "comfortable" : "dense";

function show(): void {
  document.documentElement.dataset["density"] = density;
  for (const listener of listeners) listener();
}

function choose(next: Density): void {
  density = next;
  localStorage.setItem(KEY, next);
  show();
}

function listen(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

show();

/** Height of table rows, and a function that changes it. */
export const useDensity = (): { readonly density: Density; readonly choose: (next: Density) => void } => ({ density: useSyncExternalStore(listen, () => density), choose });
