// Whether the control plane answers, and since when: what is on the screen is as old as this says.
import { useSyncExternalStore } from "react";

export type Reach = { readonly up: boolean; readonly since: number };

const PROBE = 2_000;

let current: Reach = { up: true, since: Date.now() };
let probe: ReturnType<typeof setInterval> | undefined;
const listeners = new Set<() => void>();
const returns = new Set<() => void>();

function change(up: boolean): void {
  if (current.up === up) return;
  current = { up, since: Date.now() };
  for (const listener of listeners) listener();
}

export function reached(): void {
  clearInterval(probe);
  probe = undefined;
  if (current.up) return;
  change(true);
  for (const one of returns) one();
}

export function unreachable(): void {
  change(false);
  probe ??= setInterval(() => void look(), PROBE);
}

async function look(): Promise<void> {
  try {
    if ((await fetch("/readyz", { cache: "no-store" })).ok) reached();
  } catch {
    // It is still away: the next look comes by itself.
  }
}

/** Have something done each time the control plane answers again. */
export function onReached(what: () => void): void {
  returns.add(what);
}

function listen(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

/** The latest word on the control plane; renders again when it changes. */
export const useReach = (): Reach => useSyncExternalStore(listen, () => current);
