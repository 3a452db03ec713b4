import { describe, expect, it } from "vitest";
import type { MapRowFragment } from "../src/api/generated";
import { partsOf, tagNames } from "../src/fleet/grouping";
import { count, letterOf, MARKS, wordOf } from "../src/fleet/marks";
import { merge } from "../src/fleet/useFleet";

const row = (id: string, services = "H", tags: MapRowFragment["tags"] = [], projectId: string | null = null): MapRowFragment => ({
  id, handle: id, name: id, projectId, pingedAt: null, services, tags,
});

describe("the fleet as it changes", () => {
  it("takes in what is new or changed, and lets go of what has gone", () => {
    const known = new Map([row("a"), row("b")].map((one) => [one.id, one]));
    const next = merge(known, { gone: ["a"], rows: [row("b", "F"), row("c")] });
    expect([...next.values()].map(({ id, services }) => id + services)).toEqual(["bF", "cH"]);
    expect(known.size).toBe(2);
  });

  it("counts each letter", () => {
    expect([...count([row("a", "HHF"), row("b", "H")])]).toEqual([["H", 3], ["F", 1]]);
  });

  it("has a word and one letter for every mark", () => {
    expect(new Set(MARKS.map(({ letter }) => letter)).size).toBe(MARKS.length);
    expect(wordOf(letterOf("AWAITING"))).toBe("Waits for a person");
    expect(wordOf("?")).toBe("Unknown");
  });
});

describe("groups", () => {
  const rows = [row("a", "H", [{ name: "region", value: "eu" }], "p"), row("b", "H", [{ name: "region", value: "us" }, { name: "stage", value: "x" }]), row("c")];

  it("keeps every cluster, in one group each", () => {
    for (const by of ["", "project", "tag:region", "tag:none"])
      expect(partsOf(rows, by, new Map()).flatMap((part) => part.rows).length).toBe(rows.length);
  });

  it("is by the value of a tag, and by the name of a project", () => {
    expect(partsOf(rows, "tag:region", new Map()).map(({ title }) => title)).toEqual(["eu", "no region", "us"]);
    expect(partsOf(rows, "project", new Map([["p", "Shop"]])).map(({ title }) => title)).toEqual(["Shop", "no project"]);
  });

  it("offers the tag that most clusters have first", () => {
    expect(tagNames(rows)).toEqual(["region", "stage"]);
  });
});
