// The theme that was chosen in this browser.
import { useSyncExternalStore } from "react";

export type Theme = "system" | "light" | "dark";
const ORDER: readonly Theme[] = ["system", "light", "dark"];
const KEY = "towline.theme";

const dark = matchMedia("(prefers-color-scheme: dark)");
const listeners = new Set<() => void>();
let theme = stored();

function stored(): Theme {
  const value = localStorage.getItem(KEY);
  return ORDER.find((one) => one === value) ?? "system";
}

function show(): void {
  if (theme === "system") delete document.documentElement.dataset["theme"];
  else document.documentElement.dataset["theme"] = theme;
  for (const listener of listeners) listener();
}

function next(): void {
  theme = ORDER[(ORDER.indexOf(theme) + 1) % ORDER.length] ?? "system";
  localStorage.setItem(KEY, theme);
  show();
}

function listen(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

show();
dark.addEventListener("change", show);

/** The theme chosen in this browser, and how to go on to the next one. */
export function useTheme(): { readonly theme: Theme; readonly next: () => void } {
  return { theme: useSyncExternalStore(listen, () => theme), next };
}

/** `light` or `dark`, as it is shown now: for what paints by itself. */
export const useThemeName = (): string =>
  useSyncExternalStore(listen, () => (theme === "system" ? (dark.matches ? "dark" : "light") : theme));
