import { cleanup, fireEvent, render, screen, waitFor, within } from "@testing-library/react";
import { userEvent } from "@testing-library/user-event";
import { Client, Provider, type Operation, type OperationResult } from "urql";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { filter, map, pipe } from "wonka";
import { send } from "../src/api/kubeProxy";
import { WORKLOAD_ACTIONS, actionsFor } from "../src/workloads/actions";
import type { LiveObject, ObjectRef } from "../src/workloads/objects";
import { changesOf } from "../src/workloads/operations";
import { selfHeal } from "../src/workloads/selfHeal";
import { WorkloadActions, targetOf } from "../src/workloads/WorkloadActions";
import { syncCommand } from "../src/services/SyncObjects";
import { OverlayPlace } from "../src/ui/OverlayPlace";
import { closeOverlay } from "../src/ui/overlay";


type Sent = { readonly method: string; readonly path: string; readonly query: URLSearchParams; readonly body: unknown };
type Answer = readonly [status: number, body: unknown];

let sent: Sent[] = [];
let desired: string | null = null;
/** Answer of the API server to a request; undefined: the usual one. */
let special: (request: Sent) => Answer | undefined = () => undefined;

const deployment = (name: string, replicas = 2) => ({
  apiVersion: "apps/v1", kind: "Deployment",
  metadata: { name, namespace: "shop", uid: `u-${name}`, resourceVersion: "7", generation: 1 },
  spec: { replicas, template: { metadata: { labels: { app: name } } } },
});

function merged(target: unknown, patch: unknown): unknown {
  if (typeof patch !== "object" || patch === null) return patch;
  const result = { ...(target as Record<string, unknown>) };
  for (const [key, value] of Object.entries(patch)) result[key] = merged(result[key] ?? {}, value);
  return result;
}

function answer(request: Sent): Answer {
  const given = special(request);
  if (given !== undefined) return given;
  if (request.path.endsWith("selfsubjectaccessreviews")) return [201, { status: { allowed: true } }];
  if (request.path.endsWith("horizontalpodautoscalers")) return [200, { items: [] }];
  const name = /deployments\/(\w+)/.exec(request.path)?.[1] ?? "web";
  if (request.path.endsWith("/scale")) return [200, merged({ spec: { replicas: 2 } }, request.body ?? {})];
  return [200, request.method === "PATCH" ? merged(deployment(name), request.body) : deployment(name)];
}

const fakeFetch = (input: string, init: RequestInit = {}): Promise<Response> => {
  const url = new URL(input, "https://console.example.org");
  const request = { method: init.method ?? "GET", path: url.pathname, query: url.searchParams, body: typeof init.body === "string" ? (JSON.parse(init.body) as unknown) : undefined };
  sent.push(request);
  const [status, body] = answer(request);
  return Promise.resolve(new Response(JSON.stringify(body), { status }));
};

const sync = { createNamespace: true, driftPolicy: "HEAL" as const, keepOnPrune: false, failOnConflict: false, replaceImmutable: false, waveTimeout: 0, deletionBudget: 0, diffNormalizers: [], healthRules: [], namespaceMetadata: null };

function client(): Client {
  const data = {
    component: { id: "c", component: { id: "c", synced: true, content: { id: "c", live: null, desired } } },
    serviceDeployment: { id: "s", name: "shop", paused: false, updatedAt: "2026-11-28T10:00:00Z", syncConfig: sync },
  };
  const respond = (operation: Operation) => ({ operation, data, error: undefined, stale: false, hasNext: false }) as OperationResult;
  return new Client({ url: "/", preferGetMethod: false, exchanges: [() => (operations) => pipe(operations, filter(({ kind }) => kind !== "teardown"), map(respond))] });
}

const row = (name: string) => ({ id: name, group: "apps", version: "v1", kind: "Deployment", namespace: "shop", name });

const show = (...names: readonly string[]) =>
  render(
    <Provider value={client()}>
      <WorkloadActions targets={names.map((name) => targetOf(row(name), "dev", "s"))} />
      <OverlayPlace />
    </Provider>,
  );

const choose = async (title: string) => {
  await userEvent.click(screen.getByRole("button", { name: "Actions" }));
  await userEvent.click(await screen.findByRole("menuitem", { name: new RegExp(title) }));
};

/** Requests that change the cluster. */
const changes = () => sent.filter(({ method, query, path }) => method !== "GET" && !query.has("dryRun") && !path.endsWith("reviews"));

beforeEach(() => {
  sent = [];
  desired = null;
  special = () => undefined;
  vi.stubGlobal("fetch", vi.fn(fakeFetch));
  HTMLDialogElement.prototype.showModal = function showModal(this: HTMLDialogElement) {
    this.open = true;
  };
});
afterEach(() => {
  closeOverlay();
  cleanup();
  vi.unstubAllGlobals();
});

it("shows the effect by a dry run before it scales, and scales once", async () => {
  desired = JSON.stringify(deployment("web"));
  show("web");
  await choose("Scale Deployment");
  const dialog = await screen.findByRole("dialog");
  const replicas = within(dialog).getByLabelText(/Replicas/);
  expect((replicas as HTMLInputElement).value).toBe("2");
  await userEvent.clear(replicas);
  await userEvent.type(replicas, "5");
  expect(await within(dialog).findByText("spec.replicas")).toBeTruthy();
  expect(within(dialog).getByText(/Git sets spec.replicas to 2. Self-heal reverts/)).toBeTruthy();
  expect(within(dialog).getByText("kubectl --context towline-dev -n shop scale deployment/web --replicas=5")).toBeTruthy();
  expect(changes()).toEqual([]);
  await userEvent.click(within(dialog).getByRole("button", { name: "Scale Deployment" }));
  await waitFor(() => expect(screen.queryByRole("dialog")).toBeNull());
  expect(changes().map(({ method, path, body }) => [method, path, body])).toEqual([["PATCH", "/k8s/clusters/dev/apis/apps/v1/namespaces/shop/deployments/web/scale", { spec: { replicas: 5 } }]]);
});

it("disables an action with the missing permission", async () => {
  special = ({ path, body }) =>
    path.endsWith("selfsubjectaccessreviews") ? [201, { status: { allowed: JSON.stringify(body).includes('"subresource":"scale"') } }] : undefined;
  show("web");
  await userEvent.click(screen.getByRole("button", { name: "Actions" }));
  const restart = await screen.findByRole("menuitem", { name: /Restart Deployment/ });
  expect(restart.getAttribute("aria-disabled")).toBe("true");
  expect(screen.getAllByText("You need the permission patch deployments in namespace shop of the cluster.").length).toBeGreaterThan(0);
  await userEvent.click(restart);
  expect(screen.queryByRole("dialog")).toBeNull();
  expect(screen.getByRole("menuitem", { name: /Scale Deployment/ }).getAttribute("aria-disabled")).toBe("false");
});

it("says why nothing can be done in a cluster without contact", async () => {
  special = () => [503, { message: "cluster dev is not connected" }];
  show("web");
  await userEvent.click(screen.getByRole("button", { name: "Actions" }));
  expect((await screen.findAllByText("cluster dev is not connected")).length).toBeGreaterThan(1);
});

it("refuses what the dry run refuses", async () => {
  special = ({ method, query }) => (method === "PATCH" && query.has("dryRun") ? [403, { message: "denied by policy quota" }] : undefined);
  show("web");
  await choose("Restart Deployment");
  const dialog = await screen.findByRole("dialog");
  expect(await within(dialog).findByText("denied by policy quota")).toBeTruthy();
  expect(within(dialog).getByRole<HTMLButtonElement>("button", { name: "Restart Deployment" }).disabled).toBe(true);
});

it("shows a result for each object, and retries only those that failed", async () => {
  let isDown = true;
  special = ({ method, query, path }) => (isDown && method === "PATCH" && !query.has("dryRun") && path.includes("/api") && path.includes("deployments/two") ? [500, { message: "etcd is away" }] : undefined);
  show("one", "two", "three");
  await choose("Restart objects");
  const dialog = await screen.findByRole("dialog");
  await within(dialog).findByText("3 objects: 3 ready");
  await userEvent.click(within(dialog).getByRole("button", { name: "Restart objects" }));
  expect(await within(dialog).findByText("3 objects: 2 restarted, 1 failed")).toBeTruthy();
  expect(within(dialog).getByText(/Failed: etcd is away/)).toBeTruthy();
  isDown = false;
  sent = [];
  await userEvent.click(within(dialog).getByRole("button", { name: "Retry failed" }));
  expect(await within(dialog).findByText("3 objects: 3 restarted")).toBeTruthy();
  expect(changes().map(({ path }) => path.split("/").at(-1))).toEqual(["two"]);
});

const ref = (group: string, kind: string): ObjectRef => ({ group, version: "v1", kind, namespace: "shop", name: "x" });
const action = (id: string) => WORKLOAD_ACTIONS.find((known) => known.id === id) ?? WORKLOAD_ACTIONS[0];
const rollout = (status: LiveObject["status"]): LiveObject => ({
  metadata: { name: "x", uid: "u", resourceVersion: "9" },
  spec: { strategy: { canary: { steps: [{}, {}, {}] } } },
  status: { currentPodHash: "new", stableRS: "old", ...status },
});

it("promotes a paused rollout without skipping a step, and skips the step of a running one", () => {
  const promote = action("promote");
  const body = (status: LiveObject["status"]) => promote?.request(ref("argoproj.io", "Rollout"), rollout(status), {}).body;
  expect(body({ pauseConditions: [{}], currentStepIndex: 1 })).toEqual({ metadata: { resourceVersion: "9" }, status: { pauseConditions: null } });
  expect(body({ currentStepIndex: 1 })).toEqual({ metadata: { resourceVersion: "9" }, status: { currentStepIndex: 2 } });
  expect(body({ currentStepIndex: 3 })).toEqual({ metadata: { resourceVersion: "9" }, status: {} });
  expect(promote?.fits?.(rollout({ currentPodHash: "old" }))).toBe(false);
});

it("runs a CronJob as kubectl does, with a name of at most 63 characters", () => {
  const live: LiveObject = { metadata: { name: "x", uid: "u", resourceVersion: "1" }, spec: { jobTemplate: { metadata: { labels: { a: "b" } }, spec: { backoffLimit: 1 } } } };
  const long = { ...ref("batch", "CronJob"), name: "n".repeat(52) };
  const { method, path, body } = action("run")?.request(long, live, { suffix: "sabcde" }) ?? {};
  expect([method, path?.join("/")]).toEqual(["POST", "apis/batch/v1/namespaces/shop/jobs"]);
  expect(body).toMatchObject({ metadata: { labels: { a: "b" }, annotations: { "cronjob.kubernetes.io/instantiate": "manual" }, ownerReferences: [{ kind: "CronJob", uid: "u", controller: true }] }, spec: { backoffLimit: 1 } });
  expect((body as LiveObject).metadata.name.length).toBeLessThanOrEqual(63);
});

it("names the dry run of a deletion in its body, because the API server ignores the query then", async () => {
  await send("dev", { method: "DELETE", path: ["api", "v1", "pods"], body: { kind: "DeleteOptions" } }, true);
  expect(sent.map(({ query, body }) => [query.has("dryRun"), body])).toEqual([[false, { kind: "DeleteOptions", dryRun: ["All"] }]]);
});

it("deletes only the Pod that the user saw", () => {
  const { body } = action("delete")?.request(ref("", "Pod"), { metadata: { name: "x", uid: "seen", resourceVersion: "1" } }, {}) ?? {};
  expect(body).toMatchObject({ preconditions: { uid: "seen" } });
});

it("offers the common actions of several kinds, and edits and deletes one object of any kind", () => {
  const ids = (...refs: readonly ObjectRef[]) => actionsFor(refs).map(({ id }) => id);
  expect(ids(ref("apps", "Deployment"), ref("apps", "DaemonSet"))).toEqual(["restart"]);
  expect(ids(ref("apps", "Deployment"), ref("", "Pod"))).toEqual([]);
  expect(ids(ref("", "ConfigMap"))).toEqual(["edit", "delete-object"]);
  expect(ids(ref("", "ConfigMap"), ref("", "ConfigMap"))).toEqual([]);
  expect(ids(ref("", "Pod"))).toEqual(["delete", "edit"]);
});

const widget = { id: "w", group: "example.org", version: "v1", kind: "Widget", namespace: null, name: "big" };
const served = { resources: [{ name: "widgets/status", kind: "Widget", namespaced: false }, { name: "widgets", kind: "Widget", namespaced: false }] };
const bigWidget = { apiVersion: "example.org/v1", kind: "Widget", metadata: { name: "big", uid: "u-big", resourceVersion: "4", managedFields: [{ manager: "git" }] }, spec: { size: 1 } };
const WIDGET_PATH = "/k8s/clusters/dev/apis/example.org/v1/widgets/big";

const showWidget = () => {
  special = ({ method, path, body }) => (path.endsWith("/apis/example.org/v1") ? [200, served] : path !== WIDGET_PATH ? undefined : [200, method === "PUT" ? body : bigWidget]);
  render(
    <Provider value={client()}>
      <WorkloadActions targets={[targetOf(widget, "dev", "s")]} />
      <OverlayPlace />
    </Provider>,
  );
};

it("deletes an object of a kind that the cluster describes, only after its name was typed", async () => {
  showWidget();
  await choose("Delete Widget");
  const dialog = await screen.findByRole("dialog");
  const button = within(dialog).getByRole<HTMLButtonElement>("button", { name: "Delete Widget" });
  await userEvent.type(within(dialog).getByLabelText(/Name of the object/), "bi");
  expect(await within(dialog).findByText("Type big to confirm the deletion.")).toBeTruthy();
  expect(button.disabled).toBe(true);
  await userEvent.type(within(dialog).getByLabelText(/Name of the object/), "g");
  await waitFor(() => expect(button.disabled).toBe(false));
  await userEvent.click(button);
  await waitFor(() => expect(screen.queryByRole("dialog")).toBeNull());
  const isReal = ({ body }: Sent) => !("dryRun" in (body as object));
  expect(changes().filter(isReal).map(({ method, path, body }) => [method, path, body])).toEqual([["DELETE", WIDGET_PATH, { apiVersion: "v1", kind: "DeleteOptions", preconditions: { uid: "u-big" } }]]);
});

it("sends an edited manifest with the version that the user saw, and refuses another object", () => {
  const edit = action("edit");
  const manifest = edit?.initial?.(bigWidget as LiveObject)["manifest"] as typeof bigWidget;
  expect(manifest.metadata).toEqual({ name: "big", uid: "u-big", resourceVersion: "4" });
  const body = (changed: unknown) => edit?.request(widget, bigWidget as LiveObject, { manifest: changed }).body;
  expect(body({ ...manifest, spec: { size: 2 } })).toMatchObject({ metadata: { resourceVersion: "4" }, spec: { size: 2 } });
  expect(() => body({ ...manifest, metadata: { ...manifest.metadata, name: "other" } })).toThrow("cannot change");
  expect(() => body({ ...manifest, metadata: { name: "big" } })).toThrow("Keep metadata.resourceVersion");
});

it("edits an object in the cluster after it showed the changed fields", async () => {
  showWidget();
  await choose("Edit Widget");
  const dialog = await screen.findByRole("dialog");
  const field = within(dialog).getByLabelText(/Manifest/);
  fireEvent.change(field, { target: { value: (field as HTMLTextAreaElement).value.replace("size: 1", "size: 2") } });
  expect(await within(dialog).findByText("spec.size")).toBeTruthy();
  expect(changes()).toEqual([]);
  await userEvent.click(within(dialog).getByRole("button", { name: "Edit Widget" }));
  await waitFor(() => expect(screen.queryByRole("dialog")).toBeNull());
  expect(changes().map(({ method, path }) => [method, path])).toEqual([["PUT", WIDGET_PATH]]);
});

it("says what self-heal does with a change", () => {
  const object = ref("apps", "Deployment");
  const git = { spec: { replicas: 3 } };
  const told = (pointers: readonly string[], manifest: unknown, options = {}, paused = false) => selfHeal(object, pointers, manifest, { ...sync, ...options }, paused);
  expect(told(["/spec/replicas"], git)).toMatch(/^Git sets spec.replicas to 3. Self-heal reverts/);
  expect(told(["/spec/replicas"], git, { driftPolicy: "REPORT" })).toMatch(/reports drift/);
  expect(told(["/spec/replicas"], git, {}, true)).toMatch(/suspended/);
  expect(told(["/spec/restartAt"], git)).toMatch(/does not set the changed field/);
  expect(told(["/spec/replicas"], null)).toMatch(/does not define this object/);
  const rule = { group: "apps", kind: "Deployment", namespace: null, name: null, jsonPointers: ["/spec/replicas"], managers: [] };
  expect(told(["/spec/replicas"], git, { diffNormalizers: [rule] })).toMatch(/ignores this field/);
  expect(told(["/spec/replicas"], git, { diffNormalizers: [{ ...rule, name: "other" }] })).toMatch(/Self-heal reverts/);
});

it("hides fields that every write changes", () => {
  const before = { metadata: { resourceVersion: "1", managedFields: [] }, spec: { replicas: 1 } };
  const after = { metadata: { resourceVersion: "2", managedFields: [{}] }, spec: { replicas: 2 } };
  expect(changesOf(before, after)).toEqual([{ field: "spec.replicas", before: "1", after: "2" }]);
});

it("names the objects of a partial sync with their group, for the same command", () => {
  const objects = [row("web"), { group: null, kind: "Namespace", namespace: null, name: "shop" }];
  expect(syncCommand("s", objects, true)).toBe("towline services sync s --resource Deployment.apps/shop/web --resource Namespace/shop --prune");
});
