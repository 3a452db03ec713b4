import { cleanup, render, screen } from "@testing-library/react";
import { userEvent } from "@testing-library/user-event";
import { afterEach, expect, it, vi } from "vitest";
import { BarChart } from "../src/reports/BarChart";
import { labelSelector } from "../src/reports/Breakdown";
import { lanesOf, resultOf, type Deployment } from "../src/reports/deployments";
import { ticksTo, trendOf } from "../src/reports/scale";


afterEach(cleanup);

const deployment = (given: Partial<Deployment>): Deployment => ({
  ...{ serviceId: "s", sequence: 1, clusterId: "c", stage: "applied", desiredAt: "2026-11-22T10:00:00Z", sha: null, actor: "ada", service: "web" },
  ...{ cluster: "dev", healthyAt: null, failedAt: null, revertedAt: null, replacedAt: null },
  ...given,
});

it("draws axes with at most seven whole ticks that cover the maximum", () => {
  expect(ticksTo(0)).toEqual([0, 1]);
  expect(ticksTo(3)).toEqual([0, 1, 2, 3]);
  for (const max of [1, 7, 38, 100, 1234, 99_999]) {
    const ticks = ticksTo(max);
    expect(ticks.length).toBeLessThanOrEqual(7);
    expect(ticks.at(-1)).toBeGreaterThanOrEqual(max);
    expect(ticks.every(Number.isInteger)).toBe(true);
  }
});

it("names a trend only with a value to compare", () => {
  expect(trendOf(12, 10)).toBe("▲ 20%");
  expect(trendOf(5, 10)).toBe("▼ 50%");
  expect(trendOf(10, 10)).toBe("unchanged");
  expect([trendOf(5, 0), trendOf(5, null), trendOf(null, 5)]).toEqual(["", "", ""]);
});

it("tells the result of a deployment", () => {
  expect(resultOf(deployment({})).label).toBe("Progressing");
  expect(resultOf(deployment({ replacedAt: "2026-11-22T10:01:00Z" })).label).toBe("Superseded");
  expect(resultOf(deployment({ healthyAt: "2026-11-22T10:01:00Z" })).label).toBe("Healthy");
  expect(resultOf(deployment({ healthyAt: "2026-11-22T10:01:00Z", failedAt: "2026-11-22T10:02:00Z" })).label).toBe("Failed");
  expect(resultOf(deployment({ failedAt: "2026-11-22T10:01:00Z", healthyAt: "2026-11-22T10:02:00Z" })).label).toBe("Healthy");
  expect(resultOf(deployment({ healthyAt: "2026-11-22T10:01:00Z", revertedAt: "2026-11-22T10:03:00Z" })).label).toBe("Rolled back");
});

it("sorts clusters by their deployments", () => {
  const lanes = lanesOf([deployment({ cluster: "dev" }), deployment({ cluster: "prod" }), deployment({ cluster: "prod" }), deployment({ cluster: null })]);
  expect(lanes.map(([name, own]) => [name, own.length])).toEqual([["prod", 2], ["dev", 1], ["deleted cluster", 1]]);
});

it("selects a period by mouse and keyboard, and shows its numbers on focus", async () => {
  const select = vi.fn();
  render(<BarChart rows={[{ title: "2026-11-21", ok: 3, bad: 1, rest: 0 }, { title: "2026-11-22", ok: 0, bad: 0, rest: 2 }]} selected={-1} onSelect={select} />);
  await userEvent.tab();
  expect(screen.getByText("2026-11-21: 3 healthy, 1 failed, 0 in progress")).toBeTruthy();
  await userEvent.keyboard("{Enter}");
  await userEvent.click(screen.getByRole("button", { name: /2026-11-22/ }));
  expect(select.mock.calls).toEqual([[0], [1]]);
});

it("filters by a value of a label, or by its absence", () => {
  expect([labelSelector("team", "shop"), labelSelector("team", null)]).toEqual(["team=shop", "!team"]);
});
