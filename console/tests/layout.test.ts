import { describe, expect, it } from "vitest";
import { hit, inSight, LABEL, layOut, type FleetRow } from "../src/fleet/layout";
import { fitted } from "../src/fleet/paint";

const row = (handle: string, count: number): FleetRow => ({ id: handle, handle, pingedAt: null, services: "H".repeat(count) });

describe("the map's layout", () => {
  const rows = Array.from({ length: 40 }, (_, index) => row(`c${index}`, 1 + index * 7));

  it("does not overlap blocks", () => {
    const { blocks, cell } = layOut(rows, 600);
    for (const a of blocks)
      for (const b of blocks) {
        if (a === b) continue;
        const apart = a.x + a.columns * cell <= b.x || b.x + b.columns * cell <= a.x || a.y + a.height <= b.y || b.y + b.height <= a.y;
        expect(apart).toBe(true);
      }
  });

  it("finds every cell at its position", () => {
    const layout = layOut(rows, 600);
    for (const { row: cluster, x, y, columns } of layout.blocks)
      for (let index = 0; index < cluster.services.length; index += 1) {
        const left = x + (index % columns) * layout.cell + 1;
        const top = y + LABEL + Math.floor(index / columns) * layout.cell + 1;
        expect(hit(layout, left, top)).toEqual({ row: cluster, index });
      }
  });

  it("returns only the cluster for a label, and null for an empty area", () => {
    const layout = layOut(rows, 600);
    expect(hit(layout, 1, 1)?.index).toBeNull();
    expect(hit(layout, 599, layout.height + 50)).toBeNull();
  });

  it("paints the visible area and a small margin", () => {
    for (const top of [900, 120, 0, -1, -299, -300, -301, -4_000, -9_000]) {
      const [begin, end] = inSight(top, 900, 5_000);
      const [first, last] = [Math.max(0, -top), Math.min(5_000, 900 - top)];
      if (first < last) expect([begin <= first, end >= last]).toEqual([true, true]);
      expect(end - begin).toBeLessThanOrEqual(900 + 4 * 300);
      expect(begin).toBeGreaterThanOrEqual(0);
      expect(end).toBeLessThanOrEqual(5_000);
    }
  });

  it("lays out a hundred thousand services", () => {
    const many = Array.from({ length: 1000 }, (_, index) => row(`c${index}`, 100));
    expect(layOut(many, 1400).blocks).toHaveLength(1000);
  });
});

it("shortens a label with an ellipsis", () => {
  expect(fitted("prod", 84)).toBe("prod");
  expect(fitted("a-cluster-with-a-very-long-name", 84)).toBe("a-cluster-wi…");
});
