import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { Kind, OperationTypeNode, parse, visit } from "graphql";
import { expect, it } from "vitest";

const ROOT = join(import.meta.dirname, "../..");
const SOURCES = join(import.meta.dirname, "../src");

function allMutations(): readonly string[] {
  const names: string[] = [];
  visit(parse(readFileSync(join(ROOT, "schema.graphql"), "utf8")), {
    ObjectTypeDefinition: ({ name, fields = [] }) => {
      if (name.value === "Mutation") names.push(...fields.map((field) => field.name.value));
    },
  });
  return names;
}

function usedMutations(): ReadonlySet<string> {
  const used = new Set<string>();
  const files = readdirSync(SOURCES, { recursive: true, encoding: "utf8" }).filter((name) => name.endsWith(".graphql"));
  for (const file of files)
    for (const definition of parse(readFileSync(join(SOURCES, file), "utf8")).definitions)
      if (definition.kind === Kind.OPERATION_DEFINITION && definition.operation === OperationTypeNode.MUTATION)
        for (const field of definition.selectionSet.selections) if (field.kind === Kind.FIELD) used.add(field.name.value);
  return used;
}

/** Mutations and their reasons in the table of the documentation. */
function reasons(): readonly (readonly [string, string])[] {
  const text = readFileSync(join(ROOT, "docs/reference/console.md"), "utf8");
  const section = text.split("## API operations without a screen")[1]?.split("\n## ")[0] ?? "";
  return [...section.matchAll(/^\| `(\w+)` \| (.+) \|$/gm)].map(([, name = "", reason = ""]) => [name, reason]);
}

it("has a screen for every mutation, or a documented reason", () => {
  const used = usedMutations();
  const missing = allMutations().filter((name) => !used.has(name));
  expect(reasons().map(([name]) => name)).toEqual(missing);
  for (const [name, reason] of reasons()) expect(reason.length, name).toBeGreaterThan(20);
});
