// Recent entries of the command palette in this browser, newest first.
import type { Entry } from "./entry";

const KEY = "towline.recent";
const MAX_ENTRIES = 6;

function isEntry(value: unknown): value is Entry {
  if (typeof value !== "object" || value === null) return false;
  const { kind, title, path } = value as Record<string, unknown>;
  return typeof kind === "string" && typeof title === "string" && typeof path === "string" && /^\/(?!\/)/.test(path);
}

export function recent(): readonly Entry[] {
  try {
    const known: unknown = JSON.parse(localStorage.getItem(KEY) ?? "[]");
    return Array.isArray(known) ? known.filter(isEntry) : [];
  } catch {
    return [];
  }
}

export function remember(entry: Entry): void {
  if (entry.kind === "action" || entry.kind === "page") return;
  const others = recent().filter(({ path }) => path !== entry.path);
  localStorage.setItem(KEY, JSON.stringify([entry, ...others].slice(0, MAX_ENTRIES)));
}
