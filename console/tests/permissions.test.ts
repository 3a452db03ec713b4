import { describe, expect, it } from "vitest";
import { gridOf, has, KINDS, rulesOf, toggled, VERBS } from "../src/access/permissions";

describe("the permissions of a role as a grid", () => {
  it("turns a full grid into one rule", () => {
    const all = gridOf([{ verbs: [], kinds: [] }]);
    expect(all.size).toBe(VERBS.length * KINDS.length);
    expect(rulesOf(all)).toEqual([{ verbs: [], kinds: [] }]);
  });

  it("creates the smallest equivalent set of rules", () => {
    const grid = gridOf([
      { verbs: ["READ"], kinds: ["SERVICE"] },
      { verbs: ["READ"], kinds: ["CLUSTER"] },
      { verbs: ["READ", "WRITE"], kinds: ["PIPELINE"] },
    ]);
    const rules = rulesOf(grid);
    expect(rules).toHaveLength(2);
    expect(gridOf(rules)).toEqual(grid);
  });

  it("toggles one cell only", () => {
    const grid = toggled(gridOf([]), "WRITE", "SERVICE");
    expect(has(grid, "WRITE", "SERVICE")).toBe(true);
    expect(toggled(grid, "WRITE", "SERVICE").size).toBe(0);
  });
});
