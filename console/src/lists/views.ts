// Saved views of lists: a name and the filters, columns and order in the address. The browser keeps them.
import { useSyncExternalStore } from "react";

export type View = { readonly name: string; readonly search: string };
type Saved = Readonly<Record<string, readonly View[]>>;

const KEY = "towline.views";
const MAX_VIEWS = 50;
const listeners = new Set<() => void>();
let text: string | null = null;
let parsed: Saved = {};

/** Saved views of all pages. Views that another tab saved appear with the next change here. */
function read(): Saved {
  const stored = localStorage.getItem(KEY);
  if (stored === text) return parsed;
  text = stored;
  try {
    parsed = JSON.parse(stored ?? "{}") as Saved;
  } catch {
    parsed = {};
  }
  return parsed;
}

function write(page: string, views: readonly View[]): void {
  localStorage.setItem(KEY, JSON.stringify({ ...read(), [page]: views.slice(0, MAX_VIEWS) }));
  for (const listener of listeners) listener();
}

function listen(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

const NONE: readonly View[] = [];

export const useViews = (page: string): readonly View[] => useSyncExternalStore(listen, () => read()[page] ?? NONE);

/** Saves a view; replaces the one with the same name. */
export function saveView(page: string, view: View): void {
  const others = (read()[page] ?? NONE).filter(({ name }) => name !== view.name);
  write(page, [...others, view].sort((left, right) => left.name.localeCompare(right.name)));
}

export const removeView = (page: string, name: string): void => write(page, (read()[page] ?? NONE).filter((view) => view.name !== name));
