// Messages about completed actions.
import { useSyncExternalStore } from "react";

type Toast = { readonly id: number; readonly text: string };

const LIFE = 5_000;

let shown: readonly Toast[] = [];
let last = 0;
const listeners = new Set<() => void>();

function change(next: readonly Toast[]): void {
  shown = next;
  for (const listener of listeners) listener();
}

/** Shows a message for 5 seconds. */
export function toast(text: string): void {
  last += 1;
  const id = last;
  change([...shown.slice(-2), { id, text }]);
  setTimeout(() => change(shown.filter((message) => message.id !== id)), LIFE);
}

function listen(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

export const useToasts = (): readonly Toast[] => useSyncExternalStore(listen, () => shown);
