// Whether this browser is signed in. Pages stay where they are while somebody signs in again.
import { useSyncExternalStore } from "react";

/** `unknown` until the server has said; `expired` where somebody was signed in before. */
export type SessionState = "unknown" | "in" | "out" | "expired";

let state: SessionState = "unknown";
const listeners = new Set<() => void>();

function change(next: SessionState): void {
  if (state === next) return;
  state = next;
  for (const listener of listeners) listener();
}

export const signedIn = (): void => change("in");
export const refused = (): void => change(state === "in" || state === "expired" ? "expired" : "out");
export const signedOut = (): void => change("out");

function listen(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

export const useSession = (): SessionState => useSyncExternalStore(listen, () => state);
