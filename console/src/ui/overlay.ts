// Dialog above all pages. It stays open while rows below it appear and disappear.
import { useSyncExternalStore, type ReactNode } from "react";

type Overlay = { readonly id: number; readonly content: ReactNode };

let shown: Overlay | null = null;
let last = 0;
const listeners = new Set<() => void>();

function change(next: Overlay | null): void {
  shown = next;
  for (const listener of listeners) listener();
}

export const closeOverlay = (): void => change(null);

/** Shows a dialog; it replaces another one. */
export function openOverlay(content: ReactNode): void {
  last += 1;
  change({ id: last, content });
}

function listen(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

export const useOverlay = (): Overlay | null => useSyncExternalStore(listen, () => shown);
