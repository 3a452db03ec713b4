import { describe, expect, it } from "vitest";
import { gridOf, has, KINDS, rulesOf, turned, VERBS } from "../src/access/rights";

describe("the rights of a role as a grid", () => {
  it("says everything as everything", () => {
    const all = gridOf([{ verbs: [], kinds: [] }]);
    expect(all.size).toBe(VERBS.length * KINDS.length);
    expect(rulesOf(all)).toEqual([{ verbs: [], kinds: [] }]);
  });

  it("comes back as the fewest rules that mean the same", () => {
    const grid = gridOf([
      { verbs: ["READ"], kinds: ["SERVICE"] },
      { verbs: ["READ"], kinds: ["CLUSTER"] },
      { verbs: ["READ", "WRITE"], kinds: ["PIPELINE"] },
    ]);
    const rules = rulesOf(grid);
    expect(rules).toHaveLength(2);
    expect(gridOf(rules)).toEqual(grid);
  });

  it("turns one cell and no other", () => {
    const grid = turned(gridOf([]), "WRITE", "SERVICE");
    expect(has(grid, "WRITE", "SERVICE")).toBe(true);
    expect(turned(grid, "WRITE", "SERVICE").size).toBe(0);
  });
});
