import { useState } from "react";

export type Theme = "system" | "light" | "dark";
const ORDER: readonly Theme[] = ["system", "light", "dark"];
const KEY = "towline.theme";

function stored(): Theme {
  const value = localStorage.getItem(KEY);
  return ORDER.find((theme) => theme === value) ?? "system";
}

function show(theme: Theme): void {
  if (theme === "system") delete document.documentElement.dataset["theme"];
  else document.documentElement.dataset["theme"] = theme;
}

show(stored());

/** The theme chosen in this browser, and how to go on to the next one. */
export function useTheme(): { readonly theme: Theme; readonly next: () => void } {
  const [theme, setTheme] = useState(stored);
  const next = () => {
    const chosen = ORDER[(ORDER.indexOf(theme) + 1) % ORDER.length] ?? "system";
    localStorage.setItem(KEY, chosen);
    show(chosen);
    setTheme(chosen);
  };
  return { theme, next };
}
