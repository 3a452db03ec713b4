// Whether this browser is signed in. Pages stay where they are while somebody signs in again.
import { useSyncExternalStore } from "react";

/** `unknown` until the server has said; `expired` where somebody was signed in before. */
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

/** Whether somebody was signed in when this browser last heard: their page need not wait until the server says so again. */
export const wasSignedIn = (): boolean => localStorage.getItem(KEY) !== null;

export const signedIn = (): void => change("in");
export const refused = (): void => change(state === "in" || state === "expired" ? "expired" : "out");
export const signedOut = (): void => change("out");

function listen(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

export const useSession = (): SessionState => useSyncExternalStore(listen, () => state);
