import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";

const ROOT = join(__dirname, "..", "src");

function withoutMediaQueries(sheet: string): string {
  return sheet.replace(/@media[^{]*\{(?:[^{}]*\{[^{}]*\})*[^{}]*\}/gu, "");
}

function classesOf(sheet: string): Set<string> {
  const selectors = [...withoutMediaQueries(sheet).matchAll(/([^{}]+)\{/gu)].flatMap(([, selector]) => (selector ?? "").split(","));
  return new Set(selectors.flatMap((selector) => /^\s*\.([\w-]+)\s*$/u.exec(selector)?.[1] ?? []));
}

// Pages load their sheets when they open, and keep them: a class of two sheets would look different after another page was visited.
it("styles each class in one sheet", () => {
  const sheets = readdirSync(ROOT, { recursive: true, encoding: "utf8" }).filter((file) => file.endsWith(".css"));
  const owners = new Map<string, string[]>();
  for (const file of sheets) {
    for (const name of classesOf(readFileSync(join(ROOT, file), "utf8"))) owners.set(name, [...(owners.get(name) ?? []), file]);
  }
  const shared = [...owners].filter(([, files]) => files.length > 1);
  expect(owners.size).toBeGreaterThan(50);
  expect(shared).toEqual([]);
});
