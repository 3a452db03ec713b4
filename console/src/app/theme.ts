// Theme of this browser.
import { useSyncExternalStore } from "react";

export type Theme = "system" | "light" | "dark";
const ORDER: readonly Theme[] = ["system", "light", "dark"];
const KEY = "towline.theme";

const dark = matchMedia("(prefers-color-scheme: dark)");
const listeners = new Set<() => void>();
let theme = stored();

function stored(): Theme {
  const value = localStorage.getItem(KEY);
  return ORDER.find((known) => known === value) ?? "system";
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

/** Theme of this browser, and a function that switches to the next one. */
export function useTheme(): { readonly theme: Theme; readonly next: () => void } {
  return { theme: useSyncExternalStore(listen, () => theme), next };
}

/** Active theme, `light` or `dark`, for canvases and editors. */
export const useThemeName = (): string =>
  useSyncExternalStore(listen, () => (theme === "system" ? (dark.matches ? "dark" : "light") : theme));
