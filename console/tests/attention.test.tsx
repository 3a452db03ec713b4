import { cleanup, render, screen } from "@testing-library/react";
import { Client, Provider, type Operation, type OperationResult } from "urql";
import { afterEach, expect, it } from "vitest";
import { filter, map, pipe } from "wonka";
import type { MapRowFragment } from "../src/api/generated";
import { NeedsAttention } from "../src/fleet/NeedsAttention";

afterEach(cleanup);

const NOW = Date.parse("2026-11-22T12:00:00Z");

const row = (handle: string, pingedAt: string | null): MapRowFragment => ({ id: handle, handle, name: handle, projectId: null, pingedAt, services: "H", tags: [] });

function show(rows: readonly MapRowFragment[], failed: readonly object[] = []) {
  const data = { serviceDeployments: { totalCount: failed.length, totalCountKind: "EXACT", edges: failed.map((node) => ({ node })) } };
  const answer = (operation: Operation): OperationResult => ({ operation, data, error: undefined, stale: false, hasNext: false }) as OperationResult;
  const client = new Client({ url: "/", preferGetMethod: false, exchanges: [() => (operations) => pipe(operations, filter(({ kind }) => kind === "query"), map(answer))] });
  render(
    <Provider value={client}>
      <NeedsAttention rows={rows} filter={{}} now={NOW} moves={0} />
    </Provider>,
  );
  return screen.getByRole("region", { name: /^Needs attention/ }).textContent;
}

it("says that all shown services are healthy", () => {
  expect(show([row("dev", "2026-11-22T11:59:50Z")])).toContain("All shown services healthy");
});

it("claims no health for a filter without matches", () => {
  const text = show([]);
  expect(text).toContain("No services shown");
  expect(text).not.toContain("healthy");
});

it("says how many services are healthy while others progress", () => {
  expect(show([{ ...row("dev", "2026-11-22T11:59:50Z"), services: "HPZ" }])).toContain("No failed services; 1 of 3 services healthy");
});

it("shows offline clusters with the age of their data", () => {
  const text = show([row("dev", "2026-11-22T11:37:00Z"), row("new", null)]);
  expect(text).toContain("Agent offline; data from 23m ago");
  expect(text).toContain("Agent has never connected");
  expect(text).toContain("0 services, 2 clusters");
});

it("shows failed services with their reason", () => {
  const service = { id: "s", name: "shop", status: "FAILED", updatedAt: "2026-11-22T11:00:00Z", cluster: { id: "c", handle: "dev", pingedAt: null }, errors: [{ source: "render", message: "broken.yaml, line 2" }], message: null };
  const text = show([row("dev", "2026-11-22T11:59:50Z")], [service]);
  expect(text).toContain("dev/shop");
  expect(text).toContain("broken.yaml, line 2");
});
