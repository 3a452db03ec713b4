// State of the connection to the control plane, and the time of its last change.
import { useSyncExternalStore } from "react";

export type Connection = { readonly up: boolean; readonly since: number };

const PROBE = 2_000;
const PROBE_LIMIT = 5_000;

let current: Connection = { up: true, since: Date.now() };
let probe: ReturnType<typeof setInterval> | undefined;
let isChecking = false;
const listeners = new Set<() => void>();
const returns = new Set<() => void>();

function change(up: boolean): void {
  if (current.up === up) return;
  current = { up, since: Date.now() };
  for (const listener of listeners) listener();
}

export function reportReachable(): void {
  clearInterval(probe);
  probe = undefined;
  if (current.up) return;
  change(true);
  for (const listener of returns) listener();
}

export function reportUnreachable(): void {
  change(false);
  probe ??= setInterval(() => void check(), PROBE);
}

/** Asks whether the control plane is ready; no answer in time means that it is not reachable. */
export async function check(): Promise<void> {
  if (isChecking) return;
  isChecking = true;
  try {
    const { ok } = await fetch("/readyz", { cache: "no-store", signal: AbortSignal.timeout(PROBE_LIMIT) });
    if (ok) reportReachable();
    else reportUnreachable();
  } catch {
    reportUnreachable();
  } finally {
    isChecking = false;
  }
}

/** Registers a function that runs after each reconnect. */
export function onReconnect(listener: () => void): void {
  returns.add(listener);
}

function listen(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

/** Connection state; renders again when it changes. */
export const useConnection = (): Connection => useSyncExternalStore(listen, () => current);
