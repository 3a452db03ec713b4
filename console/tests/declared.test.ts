import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { applyCommand } from "../src/manage/AsYaml";

const ROOT = join(import.meta.dirname, "../..");
const SOURCES = join(import.meta.dirname, "../src");

/** Kinds of manifests, each with a schema for the Terraform provider. */
const allKinds = (): readonly string[] =>
  readdirSync(join(ROOT, "terraform/internal/manifest/schemas"))
    .map((name) => name.replace(/\.json$/, ""))
    .sort();

/** Kinds whose pages show "As YAML": by a list of resources, or by the page of one. */
function shownKinds(): ReadonlySet<string> {
  const files = readdirSync(SOURCES, { recursive: true, encoding: "utf8" }).filter((name) => name.endsWith(".tsx"));
  const texts = files.map((name) => readFileSync(join(SOURCES, name), "utf8")).join("\n");
  return new Set([...texts.matchAll(/\{ kind: "(\w+)", name|<AsYaml kind="(\w+)"/g)].map(([, list, page]) => list ?? page ?? ""));
}

/** Kinds without it, and their reasons in the table of the documentation. */
function reasons(): readonly (readonly [string, string])[] {
  const text = readFileSync(join(ROOT, "docs/reference/console.md"), "utf8");
  const section = text.split("## Resources as YAML")[1]?.split("\n## ")[0] ?? "";
  return [...section.matchAll(/^\| `(\w+)` \| (.+) \|$/gm)].map(([, name = "", reason = ""]) => [name, reason]);
}

it("shows every kind as YAML, or documents the reason", () => {
  const shown = shownKinds();
  expect([...shown].filter((kind) => !allKinds().includes(kind))).toEqual([]);
  expect(reasons().map(([name]) => name)).toEqual(allKinds().filter((kind) => !shown.has(kind)));
  for (const [name, reason] of reasons()) expect(reason.length, name).toBeGreaterThan(20);
});

it("applies the text unchanged, whatever it contains", () => {
  expect(applyCommand("a: $HOME `x`\n")).toBe("towline apply -f - <<'END_OF_MANIFEST'\na: $HOME `x`\nEND_OF_MANIFEST");
  expect(applyCommand("a: 1")).toBe("towline apply -f - <<'END_OF_MANIFEST'\na: 1\nEND_OF_MANIFEST");
});
