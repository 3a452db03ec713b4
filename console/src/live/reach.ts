// Whether the control plane answers, and since when: what is on the screen is as old as this says.
import { useSyncExternalStore } from "react";

export type Reach = { readonly up: boolean; readonly since: number };

let current: Reach = { up: true, since: Date.now() };
const listeners = new Set<() => void>();

function change(up: boolean): void {
  if (current.up === up) return;
  current = { up, since: Date.now() };
  for (const listener of listeners) listener();
}

export const reached = (): void => change(true);
export const unreachable = (): void => change(false);

function listen(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

/** The latest word on the control plane; renders again when it changes. */
export const useReach = (): Reach => useSyncExternalStore(listen, () => current);
