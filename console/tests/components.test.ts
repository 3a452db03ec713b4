import { expect, it } from "vitest";
import { grow, type Branch, type Component } from "../src/services/service";

const object = (uid: string, ownerUid: string | null): Component => ({
  id: uid, uid, ownerUid, group: null, version: null, kind: "Pod", namespace: null, name: uid, state: null,
  synced: true, message: null, images: [], updatedAt: "2026-01-01T00:00:00Z",
});

const names = (branches: readonly Branch[]): unknown[] => branches.map(({ component, children }) => [component.name, names(children)]);

it("puts components below their owner", () => {
  const tree = grow([object("pod", "set"), object("set", "deployment"), object("deployment", null)]);
  expect(names(tree)).toEqual([["deployment", [["set", [["pod", []]]]]]]);
});

it("puts what fails or waits before what is healthy", () => {
  const states = ["RUNNING", "PENDING", "FAILED", null] as const;
  const tree = grow(states.map((state) => ({ ...object(state ?? "unknown", null), state })));
  expect(tree.map(({ component }) => component.state)).toEqual(["FAILED", null, "PENDING", "RUNNING"]);
});

it("keeps a component whose owner is missing", () => {
  expect(names(grow([object("pod", "gone")]))).toEqual([["pod", []]]);
});

it("keeps components with circular ownership", () => {
  const shown = JSON.stringify(names(grow([object("a", "b"), object("b", "a")])));
  expect(shown).toContain("a");
  expect(shown).toContain("b");
});
