// Sign-in state of this browser. Pages stay open while the user signs in again.
import { useSyncExternalStore } from "react";

/** `unknown` until the first response; `expired` if the user was signed in before. */
export type SessionState = "unknown" | "in" | "out" | "expired";

const KEY = "towline.signed-in";

let state: SessionState = "unknown";
const listeners = new Set<() => void>();

function change(next: SessionState): void {
  if (state === next) return;
  state = next;
  if (next === "in") localStorage.setItem(KEY, "yes");
  else localStorage.removeItem(KEY);
  for (const listener of listeners) listener();
}

/** Whether the user was signed in at the last visit; the page then renders before the first response. */
export const wasSignedIn = (): boolean => localStorage.getItem(KEY) !== null;

export const signedIn = (): void => change("in");
export const sessionExpired = (): void => change(state === "in" || state === "expired" ? "expired" : "out");
export const signedOut = (): void => change("out");

function listen(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

export const useSession = (): SessionState => useSyncExternalStore(listen, () => state);
