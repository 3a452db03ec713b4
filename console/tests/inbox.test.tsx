import { cleanup, render, screen, within } from "@testing-library/react";
import { userEvent } from "@testing-library/user-event";
import { Client, Provider, type Operation, type OperationResult } from "urql";
import { afterEach, beforeAll, expect, it } from "vitest";
import { map, pipe } from "wonka";
import type { InboxQuery } from "../src/api/generated";
import { InboxPage } from "../src/inbox/InboxPage";
import { itemsOf } from "../src/inbox/items";

// The themes of the pages read the preference of the browser, which jsdom does not have.

type Inbox = InboxQuery["inbox"];

const cluster = { id: "c", handle: "prod", pingedAt: null };
const failed: Inbox["failedServices"][number] = {
  id: "s", name: "web", namespace: "web", status: "FAILED", sha: "abcdef0123", message: null, paused: false, waiting: false, commitsBehind: null,
  drifted: 0, updatedAt: "2026-11-22T10:00:00Z", observedAt: null, cluster, errors: [{ source: "render", message: "no such folder" }],
};
const request: Inbox["accessRequests"][number] = {
  id: "r", scope: "installation", place: "installation", minutes: 30, reason: "incident", state: "PENDING", decidedBy: "",
  insertedAt: "2026-11-22T11:00:00Z", decidedAt: null, expiresAt: null, role: { id: "e", name: "editor" }, user: { id: "g", email: "grace@example.org", name: "Grace" },
};
const NONE = { approvals: 0, failedStages: 0, accessRequests: 0, deletions: 0, failedServices: 0 };
const EMPTY: Inbox = { hasMore: false, counts: NONE, approvals: [], failedStages: [], accessRequests: [], deletions: [], failedServices: [] };
const TWO: Inbox = { ...EMPTY, counts: { ...NONE, accessRequests: 1, failedServices: 1 }, accessRequests: [request], failedServices: [failed] };

let sent: string[] = [];

const shown = (inbox: Inbox) => shownPaged(() => inbox);

/** Shows an inbox whose answer depends on the number of items that the page asks for. */
function shownPaged(inboxOf: (first: number) => Inbox) {
  sent = [];
  const answer = (operation: Operation): OperationResult => {
    if (operation.kind === "mutation") sent.push(JSON.stringify(operation.variables));
    const data = operation.kind === "mutation" ? {} : { inbox: inboxOf((operation.variables as { first: number }).first) };
    return { operation, data, error: undefined, stale: false, hasNext: false } as OperationResult;
  };
  const client = new Client({ url: "/", preferGetMethod: false, exchanges: [() => (operations) => pipe(operations, map(answer))] });
  return render(
    <Provider value={client}>
      <InboxPage />
    </Provider>,
  );
}

beforeAll(() => history.replaceState(null, "", "/inbox"));
afterEach(() => {
  cleanup();
  history.replaceState(null, "", "/inbox");
});

it("lists the newest item first, with its reason", () => {
  shown(TWO);
  const items = screen.getAllByRole("listitem");
  expect(items.map((item) => within(item).getAllByRole("link")[0]?.textContent)).toEqual(["Grace requests editor", "web failed"]);
  expect(screen.getByText("no such folder")).toBeTruthy();
});

it("loads more items, as often as there are more, and counts all of them", async () => {
  const many = Array.from({ length: 150 }, (_, index) => ({ ...failed, id: `s${index}`, name: `web-${index}` }));
  shownPaged((first) => ({ ...EMPTY, hasMore: first < many.length, counts: { ...NONE, failedServices: 150 }, failedServices: many.slice(0, first) }));
  expect(screen.getByRole("button", { name: "Failures 150" })).toBeTruthy();
  for (const loaded of [50, 100]) {
    expect(screen.getAllByRole("listitem")).toHaveLength(loaded);
    expect(screen.getByRole("status").textContent).toBe(`${loaded} of 150 items`);
    await userEvent.click(screen.getByRole("button", { name: "Show more" }));
  }
  expect(screen.getAllByRole("listitem")).toHaveLength(150);
  expect(screen.queryByRole("button", { name: "Show more" })).toBeNull();
});

it("leads to the list of services beyond the largest page", async () => {
  shownPaged(() => ({ ...TWO, hasMore: true, counts: { ...NONE, accessRequests: 1, failedServices: 5000 } }));
  for (let clicks = 0; clicks < 5; clicks += 1) await userEvent.click(screen.getByRole("button", { name: "Show more" }));
  expect(screen.getByRole("link", { name: "All failed services" }).getAttribute("href")).toBe("/services?status=FAILED");
  expect(screen.getByText("2 of 5,001 items")).toBeTruthy();
});

it("offers no more items of a kind that is complete", async () => {
  shownPaged(() => ({ ...TWO, hasMore: true, counts: { ...NONE, accessRequests: 1, failedServices: 99 } }));
  await userEvent.click(screen.getByRole("button", { name: "Access requests 1" }));
  expect(screen.queryByRole("button", { name: "Show more" })).toBeNull();
});

it("runs the actions of the focused item by keys", async () => {
  shown(TWO);
  await userEvent.keyboard("ja");
  expect(sent).toEqual(['{"id":"r"}']);
  await userEvent.keyboard("jk");
  await userEvent.keyboard("x");
  expect(sent).toHaveLength(2);
});

it("shows the items of one kind", async () => {
  shown(TWO);
  await userEvent.click(screen.getByRole("button", { name: "Failures 1" }));
  expect(screen.queryByText("Grace requests editor")).toBeNull();
  await userEvent.click(screen.getByRole("button", { name: "Deletions 0" }));
  expect(screen.getByText("Nothing of this kind")).toBeTruthy();
});

it("says that nothing waits", () => {
  shown(EMPTY);
  expect(screen.getByText("Nothing needs you")).toBeTruthy();
});

it("shows the release of a gate, also of a workflow", () => {
  const gate = { id: "g", name: "ok", type: "APPROVAL", state: "RUNNING", reason: "", quorum: 1, notAuthor: true, skipped: null, awaitsDecision: true, approvals: [] } as const;
  const release = { id: "l", number: 7, author: "Ann", seenAt: "2026-11-22T09:00:00Z" };
  const stage = { id: "prod", name: "prod", health: "HEALTHY", reason: "", verified: false, release, digests: [], workflow: gate, services: [], silent: [] } as const;
  const pipeline = { id: "p", name: "shop", paused: null, stages: [{ ...stage, workflow: null }], edges: [{ id: "e", reason: "", from: stage, to: stage, release, digests: [], gates: [gate] }] };
  const ofEdge = itemsOf({ ...EMPTY, approvals: [{ gateId: "g", pipeline: pipeline as never }] });
  const ofStage = itemsOf({ ...EMPTY, approvals: [{ gateId: "g", pipeline: { ...pipeline, edges: [], stages: [stage] } as never }] });
  expect([...ofEdge, ...ofStage].map((item) => item.kind === "approval" && item.question.release?.number)).toEqual([7, 7]);
});
