// Messages about completed actions.
import { useSyncExternalStore } from "react";
import type { Undo } from "../undo/inverses";

export type Toast = { readonly id: number; readonly text: string; readonly undo: Undo | null };

/** Time on the screen in milliseconds; longer with a button. */
const LIFE = 5_000;
const UNDO_LIFE = 12_000;

let shown: readonly Toast[] = [];
let last = 0;
let isHeld = false;
const listeners = new Set<() => void>();
const timers = new Map<number, ReturnType<typeof setTimeout>>();

function change(next: readonly Toast[]): void {
  shown = next;
  for (const listener of listeners) listener();
}

function start({ id, undo }: Toast): void {
  clearTimeout(timers.get(id));
  if (!isHeld) timers.set(id, setTimeout(() => dismiss(id), undo === null ? LIFE : UNDO_LIFE));
}

/** Shows a message for 5 seconds; with a button that undoes the action, for 12 seconds. */
export function toast(text: string, undo: Undo | null = null): void {
  last += 1;
  const message = { id: last, text, undo };
  change([...shown.slice(-2), message]);
  start(message);
}

/** Removes a message. */
export function dismiss(id: number): void {
  clearTimeout(timers.get(id));
  timers.delete(id);
  change(shown.filter((message) => message.id !== id));
}

/** Keeps all messages while the pointer or the focus is on them. */
export function hold(held: boolean): void {
  isHeld = held;
  for (const message of shown) {
    if (held) clearTimeout(timers.get(message.id));
    else start(message);
  }
}

function listen(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

export const useToasts = (): readonly Toast[] => useSyncExternalStore(listen, () => shown);
