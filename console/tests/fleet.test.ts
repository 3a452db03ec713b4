import { describe, expect, it } from "vitest";
import type { MapRowFragment } from "../src/api/generated";
import { partsOf, tagNames } from "../src/fleet/grouping";
import { count, letterOf, stateOfLetter, STATUS_CODES } from "../src/fleet/statusCodes";
import { merge } from "../src/fleet/useFleet";
import { STATES } from "../src/ui/states";

const row = (id: string, services = "H", tags: MapRowFragment["tags"] = [], projectId: string | null = null): MapRowFragment => ({
  id, handle: id, name: id, projectId, pingedAt: null, services, tags,
});

describe("live changes of the fleet", () => {
  it("sets new and changed rows, and removes the others", () => {
    const known = new Map([row("a"), row("b")].map((known) => [known.id, known]));
    const next = merge(known, { gone: ["a"], rows: [row("b", "F"), row("c")] });
    expect([...next.values()].map(({ id, services }) => id + services)).toEqual(["bF", "cH"]);
    expect(known.size).toBe(2);
  });

  it("counts each letter", () => {
    expect([...count([row("a", "HHF"), row("b", "H")])]).toEqual([["H", 3], ["F", 1]]);
  });

  it("has one letter and one state for every status code", () => {
    expect(new Set(STATUS_CODES.map(({ letter }) => letter)).size).toBe(STATUS_CODES.length);
    expect(stateOfLetter(letterOf("AWAITING"))).toBe(STATES.awaitingApproval);
    expect(stateOfLetter("?")).toBe(STATES.unknown);
  });
});

describe("groups", () => {
  const rows = [row("a", "H", [{ name: "region", value: "eu" }], "p"), row("b", "H", [{ name: "region", value: "us" }, { name: "stage", value: "x" }]), row("c")];

  it("put every cluster into exactly one group", () => {
    for (const by of ["", "project", "tag:region", "tag:none"])
      expect(partsOf(rows, by, new Map()).flatMap((part) => part.rows).length).toBe(rows.length);
  });

  it("use the value of a tag or the name of a project", () => {
    expect(partsOf(rows, "tag:region", new Map()).map(({ title }) => title)).toEqual(["eu", "no region", "us"]);
    expect(partsOf(rows, "project", new Map([["p", "Shop"]])).map(({ title }) => title)).toEqual(["Shop", "no project"]);
  });

  it("list the most used tag first", () => {
    expect(tagNames(rows)).toEqual(["region", "stage"]);
  });
});
