import { act, cleanup, fireEvent, render, screen, within } from "@testing-library/react";
import { userEvent } from "@testing-library/user-event";
import { Client, createRequest, getOperationName, Provider, type AnyVariables, type Operation, type OperationResult, type TypedDocumentNode } from "urql";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { map, pipe } from "wonka";
import * as api from "../src/api/generated";
import { serviceOperations } from "../src/services/bulkOperations";
import { PlanDialog } from "../src/bulk/PlanDialog";
import { dismiss, hold, toast } from "../src/ui/toast";
import { Toasts } from "../src/ui/Toasts";
import { INVERSES, inverseOf } from "../src/undo/inverses";
import { WORKLOAD_ACTIONS } from "../src/workloads/actions";

let sent: [string, AnyVariables][] = [];
let refusal: string | null = null;

function answer(operation: Operation): OperationResult {
  const name = getOperationName(operation.query) ?? "";
  if (operation.kind === "mutation") sent.push([name, operation.variables]);
  const error = operation.kind === "mutation" && refusal !== null ? new Error(refusal) : undefined;
  const data = name === "LabelService" ? { applyManifests: { problems: [] } } : name === "Refusal" ? { can: { allowed: true } } : {};
  return { operation, data, error, stale: false, hasNext: false } as unknown as OperationResult;
}

const client = new Client({ url: "/", preferGetMethod: false, exchanges: [() => (operations) => pipe(operations, map(answer))] });

const done = (query: TypedDocumentNode<never, never>, variables: object, data: object = {}) => ({ data, operation: createRequest(query, variables as never) });

beforeEach(() => {
  sent = [];
  refusal = null;
});
afterEach(() => {
  cleanup();
  vi.useRealTimers();
  for (let id = 0; id < 200; id += 1) dismiss(id);
  hold(false);
});

const attributes = { name: "Failed", list: "services", query: "", filters: { status: "FAILED" }, columns: ["service"], order: "", sharing: "NOBODY", projectId: null };
const view = { ...attributes, id: "v", owner: "ada", own: true };
const tags = [{ name: "region", value: "eu" }];
const manifest = { kind: "Service", metadata: { name: "web", labels: { team: "a" } } };
const member = { groupId: "g", userId: "u" };

const CASES: readonly [api: string, document: unknown, variables: object, before: object | null, inverse: string, expected: object, data?: object][] = [
  ["suspend", api.UpdateServiceDocument, { id: "s", attributes: { paused: true } }, null, "UpdateService", { id: "s", attributes: { paused: false } }],
  ["resume", api.UpdateServiceDocument, { id: "s", attributes: { paused: false } }, null, "UpdateService", { id: "s", attributes: { paused: true } }],
  ["cluster source", api.UpdateClusterSourceDocument, { id: "s", attributes: { suspended: true } }, null, "UpdateClusterSource", { id: "s", attributes: { suspended: false } }],
  ["configuration source", api.UpdateConfigurationSourceDocument, { id: "s", attributes: { suspended: false } }, null, "UpdateConfigurationSource", { id: "s", attributes: { suspended: true } }],
  ["pin", api.RollbackDocument, { id: "s", revisionId: "r" }, { status: "HEALTHY" }, "Release", { id: "s" }],
  ["unpin", api.ReleaseDocument, { id: "s" }, { pinnedSha: "a", revision: { id: "r" } }, "Rollback", { id: "s", revisionId: "r" }],
  ["suspend pipeline", api.PausePipelineDocument, { id: "p", reason: "x" }, null, "ResumePipeline", { id: "p" }],
  ["resume pipeline", api.ResumePipelineDocument, { id: "p" }, { paused: "audit" }, "PausePipeline", { id: "p", reason: "audit" }],
  ["freeze", api.FreezeClusterGroupDocument, { id: "g", reason: "x" }, null, "UnfreezeClusterGroup", { id: "g" }],
  ["end freeze", api.UnfreezeClusterGroupDocument, { id: "g" }, { frozenReason: "sale" }, "FreezeClusterGroup", { id: "g", reason: "sale" }],
  ["deny", api.DenyRevisionDocument, { revision: "r", reason: "x" }, null, "AllowRevision", { revision: "r", projectId: null }],
  ["allow", api.AllowRevisionDocument, { revision: "r", projectId: null }, { reason: "cve" }, "DenyRevision", { revision: "r", reason: "cve" }],
  ["disable", api.DisableUserDocument, { id: "u", disabled: true }, null, "DisableUser", { id: "u", disabled: false }],
  ["add member", api.CreateGroupMemberDocument, member, null, "DeleteGroupMember", member],
  ["remove member", api.DeleteGroupMemberDocument, member, null, "CreateGroupMember", member],
  ["tag", api.TagClusterDocument, { id: "c", tags: [] }, { tags }, "TagCluster", { id: "c", tags }],
  ["label", api.LabelServiceDocument, { sources: [] }, { manifest }, "LabelService", { sources: [{ file: "labels", content: JSON.stringify(manifest) }] }],
  ["new view", api.SaveViewDocument, { id: null, attributes }, null, "DeleteView", { id: "v" }, { saveView: { id: "v" } }],
  ["changed view", api.SaveViewDocument, { id: "v", attributes: { name: "Other" } }, view, "SaveView", { id: "v", attributes: { name: "Failed" } }],
  ["deleted view", api.DeleteViewDocument, { id: "v" }, view, "SaveView", { id: null, attributes }],
];

it.each(CASES)("takes back: %s", async (_name, document, variables, before, inverse, expected, data = {}) => {
  const undo = inverseOf(done(document as never, variables, data), before);
  await undo?.(client);
  expect(sent).toEqual([[inverse, expected]]);
});

it("tests each inverse of the table", () => {
  const tested = new Set(CASES.map(([, document]) => getOperationName(createRequest(document as TypedDocumentNode, {}).query)));
  expect([...INVERSES.keys()].filter((name) => !tested.has(name))).toEqual([]);
});

it.each([
  ["a pin of a pinned service", api.RollbackDocument, { id: "s", revisionId: "r" }, { status: "PINNED" }],
  ["several settings at once", api.UpdateServiceDocument, { id: "s", attributes: { paused: true, name: "b" } }, null],
  ["an unpin without a known revision", api.ReleaseDocument, { id: "s" }, { status: "PINNED" }],
  ["a sync", api.SyncServiceDocument, { id: "s" }, null],
])("offers no undo of %s", (_name, document, variables, before) => {
  expect(inverseOf(done(document as never, variables), before)).toBeNull();
  expect(inverseOf({ ...done(api.PausePipelineDocument as never, { id: "p" }), error: new Error("refused") })).toBeNull();
});

const shownToasts = () =>
  render(
    <Provider value={client}>
      <Toasts />
    </Provider>,
  );
const undoable = () => toast("web suspended", inverseOf(done(api.UpdateServiceDocument as never, { id: "s", attributes: { paused: true } })));

it("undoes a change by its button or by z, and says so", async () => {
  shownToasts();
  for (const undo of [() => userEvent.click(screen.getByRole("button", { name: "Undo" })), () => userEvent.keyboard("z")]) {
    act(undoable);
    expect(within(screen.getByRole("status")).getByText("web suspended")).toBeTruthy();
    sent = [];
    await undo();
    expect(sent).toEqual([["UpdateService", { id: "s", attributes: { paused: false } }]]);
    expect(await screen.findAllByText("Undone: web suspended")).toBeTruthy();
    expect(screen.queryByRole("button", { name: "Undo" })).toBeNull();
  }
});

it("says why a change was not undone", async () => {
  shownToasts();
  act(undoable);
  refusal = "[GraphQL] you need the role editor";
  await userEvent.keyboard("z");
  expect(await screen.findByText("Not undone: you need the role editor")).toBeTruthy();
});

it("keeps the button while the focus is on it", () => {
  vi.useFakeTimers();
  shownToasts();
  act(undoable);
  const button = screen.getByRole("button", { name: "Undo" });
  act(() => {
    button.focus();
  });
  act(() => {
    vi.advanceTimersByTime(60_000);
  });
  expect(screen.getByRole("button", { name: "Undo" })).toBe(button);
  act(() => {
    button.blur();
  });
  act(() => {
    vi.advanceTimersByTime(11_000);
  });
  expect(screen.queryByRole("button")).not.toBeNull();
  act(() => {
    vi.advanceTimersByTime(2_000);
  });
  expect(screen.queryByRole("button")).toBeNull();
});

it("does not undo while the user types", () => {
  shownToasts();
  act(undoable);
  const field = document.body.appendChild(document.createElement("input"));
  fireEvent.keyDown(field, { key: "z" });
  field.remove();
  expect(sent).toEqual([]);
});

const service = (id: string) => ({ id, name: id, cluster: { handle: "dev" }, paused: false, status: "HEALTHY" }) as unknown as api.ServiceRowFragment;

it("undoes an operation on several rows at once", async () => {
  const operation = serviceOperations(client).find(({ title }) => title === "Suspend services");
  if (operation === undefined) throw new Error("no such operation");
  const planned = { ...operation, plan: () => Promise.resolve({ kind: "ready" as const, planned: {}, changes: [] }) };
  const targets = [service("a"), service("b")];
  HTMLDialogElement.prototype.showModal = () => undefined;
  render(
    <Provider value={client}>
      <PlanDialog operation={planned} targets={targets} onDone={() => undefined} />
      <Toasts />
    </Provider>,
  );
  const run = () => screen.getByRole("button", { name: "Suspend services", hidden: true });
  await vi.waitFor(() => expect(run().hasAttribute("disabled")).toBe(false));
  await userEvent.click(run());
  await userEvent.click(await screen.findByRole("button", { name: "Close", hidden: true }));
  expect(screen.getByText("2 services suspended")).toBeTruthy();
  sent = [];
  await userEvent.keyboard("z");
  expect(sent).toEqual(["a", "b"].map((id) => ["UpdateService", { id, attributes: { paused: false } }]));
});

it("takes back a scaled workload and a suspended one", () => {
  const ref = { group: "apps", version: "v1", kind: "Deployment", namespace: "shop", name: "web" };
  const backs = WORKLOAD_ACTIONS.flatMap(({ id, back }) => {
    const request = back?.(ref, { metadata: {}, spec: { replicas: 3 } } as never);
    return request == null ? [] : [[id, request.body] as const];
  });
  expect(Object.fromEntries(backs)).toEqual({
    ...{ scale: { spec: { replicas: 3 } }, pause: { spec: { paused: false } }, unpause: { spec: { paused: true } } },
    ...{ suspend: { spec: { suspend: false } }, resume: { spec: { suspend: true } }, "suspend-job": { spec: { suspend: false } }, "resume-job": { spec: { suspend: true } } },
  });
});
