import { cleanup, render, screen, waitFor, within } from "@testing-library/react";
import { userEvent } from "@testing-library/user-event";
import { Client, Provider, type Operation, type OperationResult } from "urql";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { filter, map, pipe } from "wonka";
import type { PipelineRowFragment } from "../src/api/generated";
import { GateDecision } from "../src/pipelines/Gates";
import { pipelineState, PipelineList } from "../src/pipelines/PipelineList";
import type { Gate } from "../src/pipelines/stages";
import { OverlayPlace } from "../src/ui/OverlayPlace";
import { closeOverlay } from "../src/ui/overlay";


const RELEASE = { id: "r", number: 7, author: "ada", seenAt: "2026-11-28T10:00:00Z" };
const GATE = { id: "g", name: "board", type: "APPROVAL", state: "PENDING", reason: "", quorum: 1, notAuthor: true, skipped: null, awaitsDecision: true, approvals: [] };
const stage = (name: string, health: string) => ({ id: name, name, health, reason: "", verified: true, release: RELEASE, digests: [], workflow: null, services: [], silent: [] });

function pipeline(name: string, healths: readonly string[], { paused = null as string | null, waits = false } = {}): PipelineRowFragment {
  const stages = healths.map((health, index) => stage(`stage-${String(index)}`, health));
  const edges = waits ? [{ id: "e", reason: "", from: { id: "a", name: "a" }, to: { id: "b", name: "b" }, release: RELEASE, digests: [], gates: [GATE] }] : [];
  return { __typename: "Pipeline", id: name, name, paused, stages, edges } as unknown as PipelineRowFragment;
}

let sent: unknown[] = [];
let denied = "";

function client(pipelines: readonly PipelineRowFragment[]): Client {
  const data = { pipelines: { edges: pipelines.map((node) => ({ node })), pageInfo: { hasNextPage: false, endCursor: null } }, savedViews: [], myAccess: [], pausePipeline: null };
  const answer = (operation: Operation): OperationResult => {
    if (operation.kind === "mutation") sent.push(operation.variables);
    const { id } = operation.variables as { id?: string };
    return { operation, data: { ...data, can: id !== denied }, error: undefined, stale: false, hasNext: false } as OperationResult;
  };
  return new Client({ url: "/", preferGetMethod: false, exchanges: [() => (operations) => pipe(operations, filter(({ kind }) => kind !== "teardown"), map(answer))] });
}

const show = (...pipelines: PipelineRowFragment[]) =>
  render(
    <Provider value={client(pipelines)}>
      <PipelineList filter={{ q: null, labels: null }} problems={[]} isFiltered={false} />
      <OverlayPlace />
    </Provider>,
  );

beforeEach(() => {
  sent = [];
  denied = "";
  history.replaceState(null, "", "/pipelines?view=list");
  vi.stubGlobal("IntersectionObserver", class { observe(): void {} disconnect(): void {} });
  HTMLDialogElement.prototype.showModal = function showModal(this: HTMLDialogElement) {
    this.open = true;
  };
});
afterEach(() => {
  closeOverlay();
  cleanup();
  vi.unstubAllGlobals();
});

it.each([
  ["Healthy", pipeline("p", ["HEALTHY", "HEALTHY"])],
  ["Progressing", pipeline("p", ["HEALTHY", "PROGRESSING"])],
  ["Failed", pipeline("p", ["PROGRESSING", "FAILED"], { waits: true })],
  ["Awaiting approval", pipeline("p", ["PROGRESSING", "HEALTHY"], { waits: true })],
  ["Suspended", pipeline("p", ["FAILED"], { paused: "holidays" })],
  ["Unknown", pipeline("p", [])],
])("shows what stops a pipeline before the health of its stages: %s", (label, given) => {
  expect(pipelineState(given).label).toBe(label);
});

it("lists stages with their releases, and the gates that wait", async () => {
  show(pipeline("shop", ["HEALTHY", "FAILED"], { waits: true }));
  expect(await screen.findByRole("link", { name: "shop" })).toBeTruthy();
  expect(screen.getAllByRole("listitem").map(({ textContent }) => textContent)).toEqual(["stage-0 #7 ● Healthy", "stage-1 #7 ✕ Failed"]);
  expect(screen.getByText("board")).toBeTruthy();
});

it("suspends the selected pipelines that run and that the user may suspend", async () => {
  denied = "ops";
  show(pipeline("shop", ["HEALTHY"]), pipeline("web", ["HEALTHY"], { paused: "holidays" }), pipeline("ops", ["HEALTHY"]));
  await userEvent.click(await screen.findByRole("checkbox", { name: "Select all rows" }));
  await userEvent.click(screen.getByRole("button", { name: "Suspend pipelines…" }));
  const dialog = await screen.findByRole("dialog");
  expect(await within(dialog).findByText(/You need the permission pause pipeline for this pipeline/)).toBeTruthy();
  await userEvent.click(within(dialog).getByRole("button", { name: "Suspend pipelines" }));
  await waitFor(() => expect(sent).toEqual([{ id: "shop", reason: "in the console" }]));
});

it("keeps the release that a decision was opened for, and refuses it once another one waits", async () => {
  const question = { release: RELEASE, digests: [], stage: "prod", reason: "", place: "dev → prod", within: false };
  const decision = (gate: object, number: number) => (
    <Provider value={client([])}>
      <GateDecision gate={{ ...GATE, ...gate } as unknown as Gate} question={{ ...question, release: { ...RELEASE, number } }} />
    </Provider>
  );
  const { rerender } = render(decision({}, 7));
  await userEvent.click(screen.getByRole("button", { name: "Approve…" }));
  const dialog = screen.getByRole("dialog", { name: "Approve release #7 for prod?" });
  const approve = within(dialog).getByRole<HTMLButtonElement>("button", { name: "Approve release" });
  expect(approve.disabled).toBe(false);
  for (const changed of [decision({ awaitsDecision: false }, 7), decision({}, 8)]) {
    rerender(changed);
    expect(screen.getByRole("dialog", { name: "Approve release #7 for prod?" })).toBe(dialog);
    expect(within(dialog).getByRole("alert").textContent).toContain("no longer waits here");
    expect(approve.disabled).toBe(true);
  }
  await userEvent.click(within(dialog).getByRole("button", { name: "Cancel" }));
  await userEvent.click(screen.getByRole("button", { name: "Approve…" }));
  expect(screen.getByRole("dialog", { name: "Approve release #8 for prod?" })).toBeTruthy();
});
