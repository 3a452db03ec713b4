import { cleanup, render, screen, waitFor, within } from "@testing-library/react";
import { userEvent } from "@testing-library/user-event";
import { Client, Provider, type Operation, type OperationResult } from "urql";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { delay, filter, map, pipe } from "wonka";
import { parseQuery, completions } from "../src/lists/conditions";
import { toCsv, toJson } from "../src/lists/export";
import { labelConditions, SERVICE_CONDITIONS } from "../src/lists/serviceFilter";
import { retagged } from "../src/clusters/bulkOperations";
import { ServiceList } from "../src/services/ServicesPage";
import { OverlayPlace } from "../src/ui/OverlayPlace";
import { closeOverlay } from "../src/ui/overlay";


const service = (name: string, paused = false) => ({
  __typename: "ServiceDeployment", id: name, name, namespace: "shop", status: "HEALTHY", sha: "abcdef0123", message: null, paused, waiting: false, commitsBehind: null, drifted: 0,
  updatedAt: "2026-11-28T10:00:00Z", observedAt: null, cluster: { id: "c", handle: "dev", pingedAt: null }, errors: [],
});

const VIEW = { __typename: "SavedView", list: "services", query: "", filters: {}, columns: [], order: "", projectId: null };
const VIEWS = [
  { ...VIEW, id: "v1", name: "all", sharing: "EVERYBODY", owner: "eve@example.org", own: false },
  { ...VIEW, id: "v2", name: "broken", sharing: "NOBODY", owner: "ada@example.org", own: true, query: "state:failed", filters: { status: "FAILED" }, columns: ["service", "state"], order: "-name" },
];

const MANIFEST = JSON.stringify({ apiVersion: "towline.io/v1", kind: "Service", metadata: { name: "bravo", cluster: "dev", labels: { owner: "ann", tier: "web" } }, spec: { ref: "main" } });

let mutations: unknown[] = [];
let failing = "";
let denied = "";

function client(): Client {
  const services = [service("bravo"), service("alpha", true), service("charlie")];
  const answer = (operation: Operation): OperationResult => {
    const { id } = operation.variables as { id?: string };
    if (operation.kind === "mutation") mutations.push(operation.variables);
    const data = { serviceDeployments: { totalCount: 3, totalCountKind: "EXACT", edges: services.map((node) => ({ node })), pageInfo: { hasNextPage: false, endCursor: null } }, can: id !== denied, myAccess: [], savedViews: VIEWS, manifest: MANIFEST, applyManifests: { __typename: "ManifestPlan", applied: true, problems: [] } };
    const error = operation.kind === "mutation" && id === failing ? new Error("the agent is away") : undefined;
    return { operation, data, error, stale: false, hasNext: false } as OperationResult;
  };
  return new Client({ url: "/", preferGetMethod: false, exchanges: [() => (operations) => pipe(operations, filter(({ kind }) => kind === "query" || kind === "mutation"), delay(1), map(answer))] });
}

const show = async () => {
  render(
    <Provider value={client()}>
      <ServiceList filter={{}} />
      <OverlayPlace />
    </Provider>,
  );
  await screen.findByRole("link", { name: "bravo" });
  await waitFor(() => expect(screen.getByRole<HTMLInputElement>("checkbox", { name: "Select all rows" }).disabled).toBe(false));
};

const names = () => screen.getAllByRole("link").map(({ textContent }) => textContent).filter((name) => name !== "dev");
const box = (name: string) => screen.getByRole<HTMLInputElement>("checkbox", { name: `Select ${name}` });

beforeEach(() => {
  mutations = [];
  failing = denied = "";
  history.replaceState(null, "", "/services");
  localStorage.clear();
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

it("sorts by a column, and keeps the order in the address", async () => {
  await show();
  expect(names()).toEqual(["bravo", "alpha", "charlie"]);
  await userEvent.click(screen.getByRole("button", { name: "Service" }));
  await waitFor(() => expect(names()).toEqual(["alpha", "bravo", "charlie"]));
  await userEvent.click(screen.getByRole("button", { name: "Service" }));
  await waitFor(() => expect(names()).toEqual(["charlie", "bravo", "alpha"]));
  expect(location.search).toBe("?order=-service");
  expect(screen.getByRole("columnheader", { name: "Service" }).getAttribute("aria-sort")).toBe("descending");
});

it("sorts by a column and a direction in one field, which narrow screens show", async () => {
  await show();
  const field = screen.getByRole<HTMLSelectElement>("combobox", { name: "Sort by" });
  expect(field.value).toBe("");
  await userEvent.selectOptions(field, "Service, descending");
  await waitFor(() => expect(names()).toEqual(["charlie", "bravo", "alpha"]));
  expect(location.search).toBe("?order=-service");
  await userEvent.selectOptions(field, "Service, ascending");
  await waitFor(() => expect(names()).toEqual(["alpha", "bravo", "charlie"]));
  await userEvent.selectOptions(field, "Usual order");
  await waitFor(() => expect(names()).toEqual(["bravo", "alpha", "charlie"]));
  expect(location.search).toBe("");
});

it("shows the selected columns", async () => {
  await show();
  await userEvent.click(screen.getByRole("button", { name: "View" }));
  await userEvent.click(screen.getByRole("checkbox", { name: "Drifted objects" }));
  expect(await screen.findByRole("columnheader", { name: "Drifted objects" })).toBeTruthy();
  expect(decodeURIComponent(location.search)).toContain("columns=service,cluster,");
  await userEvent.click(screen.getByRole("checkbox", { name: "Drifted objects" }));
  await waitFor(() => expect(location.search).toBe(""));
});

it("passes labels to the server as kubectl writes them", () => {
  expect(labelConditions(parseQuery("web label:team=a,tier!=web label:!old", SERVICE_CONDITIONS))).toBe("team=a,tier!=web,!old");
  expect(labelConditions(parseQuery("web", SERVICE_CONDITIONS))).toBeNull();
});

it("saves a view on the server, and links own and shared views", async () => {
  await show();
  history.replaceState(null, "", "/services?status=FAILED&q=tag%3Aregion%3Deu&order=-name&open=x");
  await userEvent.click(screen.getByRole("button", { name: "View" }));
  const links = within(await screen.findByRole("group", { name: "Views" })).getAllByRole("link");
  expect(links.map((link) => [link.textContent, link.getAttribute("href")])).toEqual([
    ["broken", "/services?columns=service%2Cstate&order=-name&q=state%3Afailed&status=FAILED"],
    ["all", "/services"],
    ["All views", "/views"],
  ]);
  expect(screen.getByText("eve@example.org")).toBeTruthy();
  await userEvent.type(screen.getByRole("textbox", { name: "Name of the view" }), "Failed");
  await userEvent.click(screen.getByRole("button", { name: "Save view" }));
  const attributes = { name: "Failed", list: "services", query: "tag:region=eu", columns: [], order: "-name", filters: { status: "FAILED" } };
  expect(mutations).toEqual([{ id: null, attributes }]);
  await userEvent.type(screen.getByRole("textbox", { name: "Name of the view" }), "broken");
  await userEvent.click(screen.getByRole("button", { name: "Save view" }));
  expect(mutations[1]).toEqual({ id: "v2", attributes: { ...attributes, name: "broken" } });
});

it("selects a range with Shift, and the focused row with x", async () => {
  await show();
  await userEvent.click(box("bravo"));
  const user = userEvent.setup();
  await user.keyboard("{Shift>}");
  await user.click(box("charlie"));
  await user.keyboard("{/Shift}");
  expect(screen.getByText("3 selected")).toBeTruthy();
  await user.keyboard("{Escape}");
  expect(screen.queryByRole("toolbar")).toBeNull();
  (document.activeElement as HTMLElement).blur();
  await user.keyboard("jjx");
  expect(box("alpha").checked).toBe(true);
  expect(screen.getByText("1 selected")).toBeTruthy();
});

it("plans an operation on each row, and shows each result", async () => {
  failing = "charlie";
  await show();
  await userEvent.click(screen.getByRole("checkbox", { name: "Select all rows" }));
  await userEvent.click(screen.getByRole("button", { name: "Suspend services…" }));
  const dialog = await screen.findByRole("dialog");
  expect(await within(dialog).findByText("3 services: 2 ready, 1 without changes")).toBeTruthy();
  expect(within(dialog).getByText(/towline services pause dev\/bravo/)).toBeTruthy();
  expect(mutations).toEqual([]);
  await userEvent.click(within(dialog).getByRole("button", { name: "Suspend services" }));
  expect(await within(dialog).findByText("3 services: 1 suspended, 1 failed, 1 without changes")).toBeTruthy();
  expect(within(dialog).getByText(/Failed: the agent is away/)).toBeTruthy();
  expect(mutations).toHaveLength(2);
});

it("labels services with the labels that they have, and without their spec", async () => {
  await show();
  await userEvent.click(box("bravo"));
  await userEvent.click(screen.getByRole("button", { name: "Label services…" }));
  const dialog = await screen.findByRole("dialog");
  expect(await within(dialog).findByText("1 service: 1 without changes")).toBeTruthy();
  await userEvent.type(within(dialog).getByLabelText(/^Add or change/), "team=shop");
  await userEvent.type(within(dialog).getByLabelText(/^Remove/), "tier");
  expect(await within(dialog).findByText("towline label service dev/bravo team=shop tier-")).toBeTruthy();
  await userEvent.click(within(dialog).getByRole("button", { name: "Label services" }));
  await waitFor(() => expect(mutations).toHaveLength(1));
  const [{ sources }] = mutations as [{ sources: [{ content: string }] }];
  expect(JSON.parse(sources[0].content)).toEqual({ apiVersion: "towline.io/v1", kind: "Service", metadata: { name: "bravo", cluster: "dev", labels: { owner: "ann", team: "shop" } } });
});

it("refuses rows without permission before it begins", async () => {
  denied = "bravo";
  await show();
  await userEvent.click(box("bravo"));
  await userEvent.click(screen.getByRole("button", { name: "Sync services…" }));
  const dialog = await screen.findByRole("dialog");
  expect(await within(dialog).findByText("You need the permission write service for this service.")).toBeTruthy();
  expect(within(dialog).getByRole<HTMLButtonElement>("button", { name: "Sync services" }).disabled).toBe(true);
});

it("parses conditions, words and errors of a query", () => {
  const parsed = parseQuery('web state:failed,out-of-sync tag:region=eu "two words" tag:tier=web', SERVICE_CONDITIONS);
  expect(parsed).toEqual({ text: "web two words", values: { state: ["failed", "out-of-sync"], tag: ["region=eu", "tier=web"] }, problems: [] });
  expect(parseQuery("state:gone colour:red", SERVICE_CONDITIONS).problems.map((problem) => problem.split(";")[0])).toEqual(["Unknown state gone", "Unknown condition colour"]);
  expect(completions("web st", SERVICE_CONDITIONS)).toEqual(["web state:"]);
  expect(completions("state:fai", SERVICE_CONDITIONS)).toEqual(["state:failed"]);
});

it("takes a URL as a word", () => {
  const parsed = parseQuery('https://git.example.org/shop.git "registry:5000" repository:https://git.example.org/web.git', SERVICE_CONDITIONS);
  expect(parsed).toEqual({ text: "https://git.example.org/shop.git registry:5000", values: { repository: ["https://git.example.org/web.git"] }, problems: [] });
});

it("exports rows without formulas for spreadsheets", () => {
  const rows = [{ __typename: "Service", id: "1", name: '=cmd|"x"', cluster: { __typename: "Cluster", handle: "dev" }, tags: [{ name: "a", value: "b" }], sha: null }];
  expect(toCsv(rows)).toBe('id,name,cluster.handle,tags,sha\r\n1,"\'=cmd|""x""",dev,a=b,\r\n');
  expect(JSON.parse(toJson(rows))).toEqual([{ id: "1", name: '=cmd|"x"', cluster: { handle: "dev" }, tags: [{ name: "a", value: "b" }], sha: null }]);
});

it("adds, changes and removes tags", () => {
  const tags = [{ name: "a", value: "1" }, { name: "b", value: "2" }, { name: "c", value: "3" }];
  expect(retagged(tags, [{ name: "b", value: "9" }], ["c"])).toEqual([{ name: "a", value: "1" }, { name: "b", value: "9" }]);
});
