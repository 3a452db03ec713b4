import { describe, expect, it } from "vitest";
import { gridOf, has, KINDS, rulesOf, turned, VERBS } from "../src/access/rights";
import { measured, within } from "../src/pipelines/measured";

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

describe("what a metric gate has measured", () => {
  it.each([
    ["0.4, wanted at most 1", [0.4]],
    ["0.4, 1.2e-05, …, wanted below 1", [0.4, 1.2e-5]],
    ["1.5 of the baseline, wanted at most 2", [1.5]],
    ["the query gives no series", []],
    ["the query fails: 3, wanted nothing", []],
  ])("is read out of %j", (reason, values) => expect(measured(reason)).toEqual(values));

  it("is held against its limit", () => {
    expect(within(1, { comparison: "AT_MOST", threshold: 1 })).toBe(true);
    expect(within(1, { comparison: "BELOW", threshold: 1 })).toBe(false);
  });
});
