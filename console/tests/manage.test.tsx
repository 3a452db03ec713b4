import { cleanup, render, screen, waitFor, within } from "@testing-library/react";
import { userEvent } from "@testing-library/user-event";
import { Client, Provider, type Operation, type OperationResult } from "urql";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { filter, map, pipe } from "wonka";
import { ResourceList } from "../src/manage/ResourceList";
import { complaintsOf } from "../src/manage/values";
import { GROUPS } from "../src/people/groups";
import { filtersOf } from "../src/notifications/rules";
import { configurationOf } from "../src/notifications/sinks";


const GROUP = { __typename: "Group", id: "g", name: "ops", description: "on call", global: false, issuer: null };
const USER = { id: "u1", email: "eve@example.org", name: "Eve", kind: "PERSON", disabledAt: null, role: null };

let sent: { readonly name: string; readonly variables: unknown }[] = [];

let asked: unknown[] = [];

/** Answers of the server by field; mutations are recorded. */
function client(can: boolean, scope = "installation"): Client {
  const data = {
    can,
    myAccess: [{ scope }],
    groups: { edges: [{ node: GROUP }], pageInfo: { hasNextPage: false, endCursor: null } },
    groupMembers: [USER],
    users: { edges: [{ node: USER }] },
    manifest: '{"apiVersion":"towline.io/v1","kind":"Group","metadata":{"name":"ops"}}',
    createGroup: GROUP,
    createGroupMember: { id: "m" },
    fieldManagers: [],
    deleteGroup: { id: "g" },
  };
  const answer = (operation: Operation): OperationResult => {
    if (operation.kind === "query") asked.push(operation.variables);
    if (operation.kind === "mutation") sent.push({ name: operation.query.loc?.source.body ?? "", variables: operation.variables });
    return { operation, data, error: undefined, stale: false, hasNext: false } as OperationResult;
  };
  return new Client({ url: "/", preferGetMethod: false, exchanges: [() => (operations) => pipe(operations, filter(({ kind }) => kind !== "teardown"), map(answer))] });
}

const show = (can = true, scope?: string) =>
  render(
    <Provider value={client(can, scope)}>
      <ResourceList kind={GROUPS} />
    </Provider>,
  );

beforeEach(() => {
  sent = [];
  asked = [];
  history.replaceState(null, "", "/people");
  vi.stubGlobal("IntersectionObserver", class { observe(): void {} disconnect(): void {} });
  HTMLDialogElement.prototype.showModal = function showModal(this: HTMLDialogElement) {
    this.open = true;
  };
});
afterEach(() => {
  cleanup();
  vi.unstubAllGlobals();
});

it("filters by words and labels, and shows nothing for a condition that it does not know", async () => {
  history.replaceState(null, "", "/people?q=on%20label:team%3Da,!old");
  show();
  expect(asked).toContainEqual(expect.objectContaining({ q: "on", labels: "team=a,!old" }));
  cleanup();
  history.replaceState(null, "", "/people?q=colour:red");
  show();
  expect(await screen.findByText("No groups shown")).toBeTruthy();
  expect(screen.getByText(/Unknown condition colour; expected one of label/)).toBeTruthy();
});

it("has no filter if the API cannot filter the kind", () => {
  render(
    <Provider value={client(true)}>
      <ResourceList kind={{ ...GROUPS, unfiltered: true }} />
    </Provider>,
  );
  expect(screen.queryByRole("combobox", { name: /^Filter/ })).toBeNull();
});

it("opens a row with its details and actions", async () => {
  show();
  const row = screen.getByRole("link", { name: /ops/ });
  expect(row.getAttribute("aria-expanded")).toBe("false");
  await userEvent.click(row);
  expect(screen.getByRole("cell", { name: "eve@example.org" })).toBeTruthy();
  expect(screen.getByRole("button", { name: "Add member…" })).toBeTruthy();
});

it("creates a resource from the dialog and shows its command", async () => {
  show();
  await userEvent.click(screen.getByRole("button", { name: "Create group…" }));
  const create = screen.getByRole<HTMLButtonElement>("button", { name: "Create group" });
  expect(create.disabled).toBe(true);
  await userEvent.type(screen.getByLabelText("Name"), "on call");
  expect(screen.getByText("towline groups create 'on call'")).toBeTruthy();
  await userEvent.click(create);
  await waitFor(() => expect(sent.map(({ variables }) => variables)).toEqual([{ attributes: { name: "on call", description: null, global: false, issuer: null } }]));
  expect(screen.queryByRole("dialog")).toBeNull();
});

it("sends the id of a resource that the user names, and refuses unknown names", async () => {
  show();
  await userEvent.click(screen.getByRole("link", { name: /ops/ }));
  await userEvent.click(screen.getByRole("button", { name: "Add member…" }));
  await userEvent.type(within(screen.getByRole("dialog")).getByRole("combobox"), "nobody");
  await userEvent.click(screen.getByRole("button", { name: "Add member" }));
  expect(await screen.findByText(/user nobody not found/)).toBeTruthy();
  await userEvent.clear(within(screen.getByRole("dialog")).getByRole("combobox"));
  await userEvent.type(within(screen.getByRole("dialog")).getByRole("combobox"), "eve@example.org");
  await userEvent.click(screen.getByRole("button", { name: "Add member" }));
  await waitFor(() => expect(sent.map(({ variables }) => variables)).toEqual([{ groupId: "g", userId: "u1" }]));
});

it("asks for the name before a deletion", async () => {
  show();
  await userEvent.click(screen.getByRole("link", { name: /ops/ }));
  await userEvent.click(screen.getByRole("button", { name: "Delete group…" }));
  const remove = screen.getByRole<HTMLButtonElement>("button", { name: "Delete group" });
  expect(remove.disabled).toBe(true);
  await userEvent.type(screen.getByLabelText(/Confirmation/), "ops");
  expect(remove.disabled).toBe(false);
});

it("disables actions with the reason if only a role in the whole installation permits them", () => {
  show(false, "project:p");
  expect(screen.getByRole<HTMLButtonElement>("button", { name: "Create group…" }).disabled).toBe(true);
  expect(screen.getByText("You need the permission administer group in the whole installation.")).toBeTruthy();
});

it("reports missing and invalid fields", () => {
  const fields = [{ path: "name", title: "Name", required: true }, { path: "more", title: "More", of: "yaml" as const }];
  expect(complaintsOf(fields, { more: "a: [" })).toEqual(["Name is required", "More: must be a YAML mapping"]);
  expect(complaintsOf(fields, { name: "x", more: { a: 1 } })).toEqual([]);
});

it("configures a sink by its type", () => {
  expect(configurationOf({ type: "SYSLOG", url: "syslog+tls://log.example.org" })).toEqual({ syslog: { url: "syslog+tls://log.example.org" } });
  expect(configurationOf({ type: "GITHUB", repository: "r", token: "t" })).toEqual({ commitStatus: { repositoryId: "r", token: "t", apiUrl: null } });
});

it("restricts all filters of a rule by its labels", () => {
  expect(filtersOf({ clusters: ["c"], regex: "^shop" })).toEqual([{ clusterId: "c" }, { regex: "^shop" }]);
  expect(filtersOf({ clusters: ["c"], labels: "team=a" })).toEqual([{ clusterId: "c", labels: "team=a" }]);
  expect(filtersOf({ labels: "team=a" })).toEqual([{ labels: "team=a" }]);
});

it("shows a resource as YAML, and copies it as a command", async () => {
  const copied: string[] = [];
  const user = userEvent.setup();
  vi.spyOn(navigator.clipboard, "writeText").mockImplementation((text) => Promise.resolve(void copied.push(text)));
  history.replaceState(null, "", "/people?open=g");
  show();
  await user.click(await screen.findByRole("button", { name: "As YAML…" }));
  const dialog = await screen.findByRole("dialog", { name: "Group ops" });
  expect(within(dialog).getByLabelText("Group ops as YAML").textContent).toBe("apiVersion: towline.io/v1\nkind: Group\nmetadata:\n  name: ops\n");
  expect(asked).toContainEqual({ kind: "Group", name: "ops" });
  await user.click(within(dialog).getByRole("button", { name: "Copy as a command" }));
  expect(copied).toEqual(["towline apply -f - <<'END_OF_MANIFEST'\napiVersion: towline.io/v1\nkind: Group\nmetadata:\n  name: ops\nEND_OF_MANIFEST"]);
  await user.click(within(dialog).getByRole("button", { name: "Close" }));
  expect(screen.queryByRole("dialog")).toBeNull();
});
