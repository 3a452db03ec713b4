import { expect, it } from "vitest";
import type { Component } from "../src/services/service";
import { graphOf, GROUP_SIZE, matching, type EdgeKind, type Relation } from "../src/topology/graph";
import { apart, layOut, NODE } from "../src/topology/layout";
import { fitted, nodeAt, withNode, zoomed } from "../src/topology/view";

const ALL: ReadonlySet<EdgeKind> = new Set(["OWNER", "NETWORK", "CONFIGURATION", "CONTROL", "PERMISSION"]);
const NONE: ReadonlySet<string> = new Set();

function object(kind: string, name: string, owner = "", more: Partial<Component> = {}): Component {
  const id = `${kind}/${name}`;
  return { id, uid: id, ownerUid: owner, group: null, version: "v1", kind, namespace: "shop", name, state: "RUNNING", synced: true, message: null, images: [], updatedAt: "", ...more };
}

const to = (sourceId: string, targetId: string, kind: Relation["kind"]): Relation => ({ sourceId, targetId, kind });
const pods = (count: number, owner = "ReplicaSet/web-1") => Array.from({ length: count }, (_, index) => object("Pod", `web-${index}`, owner));
const WEB = [object("Ingress", "edge"), object("Service", "web"), object("Deployment", "web"), object("ReplicaSet", "web-1", "Deployment/web"), object("ConfigMap", "settings")];
const RELATIONS = [to("Ingress/edge", "Service/web", "NETWORK"), to("Service/web", "Deployment/web", "NETWORK"), to("Deployment/web", "ConfigMap/settings", "CONFIGURATION")];

const shown = (components: readonly Component[], relations: readonly Relation[] = [], opened = NONE, folded = NONE) => graphOf(components, relations, ALL, opened, folded);

it("puts inputs left of what they serve, and owned objects right of their owner", () => {
  const { places } = layOut(shown([...WEB, ...pods(2)], RELATIONS));
  const x = (id: string) => places.get(id)?.x ?? Number.NaN;
  const order = ["Ingress/edge", "Service/web", "Deployment/web", "ReplicaSet/web-1", "Pod/web-0"];
  expect(order.map(x)).toEqual(order.map(x).toSorted((left, right) => left - right));
  expect(x("ConfigMap/settings")).toBe(x("Service/web"));
  expect(new Set(order.map(x)).size).toBe(order.length);
});

it("never lays one node over another", () => {
  const many = [1, 2, 3].flatMap((app) => [object("Deployment", `a${app}`), ...pods(5, `Deployment/a${app}`).map((pod) => ({ ...pod, id: `${app} ${pod.id}`, uid: `${app} ${pod.id}` }))]);
  const inputs = Array.from({ length: 9 }, (_, index) => object("Secret", `s${index}`));
  const relations = inputs.flatMap(({ id }, index) => [to("Deployment/a1", id, "CONFIGURATION"), ...(index % 2 ? [to("Deployment/a2", id, "CONFIGURATION")] : [])]);
  const places = [...layOut(shown([...many, ...inputs, ...[1, 2, 3].map((index) => object("ConfigMap", `alone${index}`))], relations)).places.values()];
  for (const [index, { x, y }] of places.entries())
    for (const other of places.slice(index + 1)) expect(Math.abs(x - other.x) >= NODE.width || Math.abs(y - other.y) >= NODE.height).toBe(true);
});

it("shows alike objects of one owner as a group, and failed ones apart", () => {
  const components = [...WEB, ...pods(GROUP_SIZE + 1), object("Pod", "bad", "ReplicaSet/web-1", { state: "FAILED" })];
  const { vertices, edges } = shown(components);
  const of = vertices.filter(({ kind }) => kind === "Pod");
  expect(of.map(({ name }) => name)).toEqual(["bad", `${GROUP_SIZE + 1} objects`]);
  const group = of.find(({ owned }) => owned === null);
  expect(edges.filter(({ from }) => from === "ReplicaSet/web-1")).toHaveLength(2);
  expect(shown(components, [], new Set([group?.id ?? ""])).vertices).toHaveLength(components.length);
});

it("hides what a folded object owns, and keeps its references", () => {
  const { vertices, edges } = shown([...WEB, ...pods(2)], [...RELATIONS, to("Service/web", "Pod/web-0", "NETWORK")], NONE, new Set(["Deployment/web"]));
  expect(vertices.map(({ kind }) => kind).toSorted()).toEqual(["ConfigMap", "Deployment", "Ingress", "Service"]);
  expect(edges).toHaveLength(3);
});

it("shows the references of the selected kinds", () => {
  const { edges } = graphOf(WEB, RELATIONS, new Set(["OWNER", "NETWORK"]), NONE, NONE);
  expect(edges.map(({ kind }) => kind).toSorted()).toEqual(["NETWORK", "NETWORK", "OWNER"]);
});

it("lays out references in a circle", () => {
  const circle = [to("Service/web", "Deployment/web", "NETWORK"), to("Deployment/web", "Ingress/edge", "CONTROL"), to("Ingress/edge", "Service/web", "NETWORK")];
  const { places } = layOut(shown([object("Ingress", "edge"), object("Service", "web"), object("Deployment", "web")], circle));
  expect([...places.values()].every(({ x, y }) => Number.isFinite(x) && Number.isFinite(y))).toBe(true);
});

it("finds nodes by text, in groups too, and those that are not healthy", () => {
  const graph = shown([...WEB, ...pods(GROUP_SIZE + 1), object("Secret", "old", "", { synced: false })]);
  expect([...matching(graph, "web-3", false)]).toHaveLength(1);
  expect([...matching(graph, "", true)]).toEqual(["Secret/old"]);
});

it("lays out 2,000 objects in time", () => {
  const apps = Array.from({ length: 100 }, (_, app) => [
    object("Service", `s${app}`),
    object("Deployment", `d${app}`),
    object("ReplicaSet", `r${app}`, `Deployment/d${app}`),
    ...Array.from({ length: 17 }, (_, pod) => object("Pod", `${app}-${pod}`, `ReplicaSet/r${app}`, { state: pod % 2 ? "RUNNING" : null })),
  ]).flat();
  const relations = Array.from({ length: 100 }, (_, app) => to(`Service/s${app}`, `Deployment/d${app}`, "NETWORK"));
  const start = performance.now();
  const graph = shown(apps, relations, new Set(Array.from({ length: 100 }, (_, app) => [`ReplicaSet/r${app} Pod RUNNING true`, `ReplicaSet/r${app} Pod  true`]).flat()));
  const { places } = layOut(graph);
  expect(places.size).toBe(2000);
  expect(performance.now() - start).toBeLessThan(500);
});

it("moves nodes apart as little as possible", () => {
  expect(apart([0, 0, 10], 1)).toEqual([-0.5, 0.5, 10]);
  expect(apart([], 1)).toEqual([]);
});

it("zooms around a point, shows a node, and finds the node under the pointer", () => {
  const view = { x: 10, y: 20, scale: 1 };
  const near = zoomed(view, 1.25, 100, 50);
  expect([near.x + 100 / 1.25, near.y + 50 / 1.25]).toEqual([110, 70]);
  const size = { width: 800, height: 600 };
  expect(withNode(view, { x: 100, y: 100 }, size)).toBe(view);
  expect(withNode(view, { x: 5000, y: 100 }, size).x).toBe(5000 + NODE.width / 2 - 400);
  const layout = layOut(shown(WEB, RELATIONS));
  const [id, place] = [...layout.places][0] ?? ["", { x: 0, y: 0 }];
  expect(nodeAt(layout, place.x + 1, place.y + 1)).toBe(id);
  expect(nodeAt(layout, -50, -50)).toBeUndefined();
  expect(fitted(layout, size).scale).toBeLessThanOrEqual(1);
});
