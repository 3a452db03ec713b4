// The graph of services: nodes, edges, filter, and the services around one.
import { expect, it } from "vitest";
import type { ServiceGraphQuery } from "../src/api/generated";
import { graphOfServices, litServices, relatedTo } from "../src/services/serviceGraph";
import { layOut } from "../src/topology/layout";

type Found = ServiceGraphQuery["serviceGraph"];

const service = (id: string, status: Found["services"][number]["status"] = "HEALTHY"): Found["services"][number] => ({ id, name: id, status, commitsBehind: null, cluster: { id: "c", handle: "eu" } });
const FOUND: Found = {
  complete: true,
  services: [service("db"), service("api", "DRIFTED"), service("web", "PAUSED")],
  edges: [
    { sourceId: "db", targetId: "api", kind: "IMPORT", label: "host" },
    { sourceId: "db", targetId: "api", kind: "IMPORT", label: "port" },
    { sourceId: "db", targetId: "api", kind: "DEPENDENCY", label: "" },
    { sourceId: "api", targetId: "web", kind: "DEPENDENCY", label: "" },
  ],
};

it("draws one edge for all values of two services, left to right", () => {
  const graph = graphOfServices(FOUND);
  expect(graph.edges.map(({ from, to, kind }) => `${from} ${to} ${kind}`)).toEqual(["db api CONFIGURATION", "db api CONTROL", "api web CONTROL"]);
  const { places } = layOut(graph);
  const at = (id: string) => places.get(id)?.x ?? NaN;
  expect(at("db")).toBeLessThan(at("api"));
  expect(at("api")).toBeLessThan(at("web"));
});

it("filters by cluster, name and state", () => {
  const graph = graphOfServices(FOUND);
  expect(litServices(graph, " ", false)).toBeNull();
  expect([...(litServices(graph, "eu w", false) ?? [])]).toEqual(["web"]);
  expect([...(litServices(graph, "", true) ?? [])]).toEqual(["api"]);
});

it("names the services around one, and their values", () => {
  const names = (kind: "IMPORT" | "DEPENDENCY", end: "sourceId" | "targetId") => relatedTo("api", FOUND, kind, end).map(({ service: { name }, values }) => [name, ...values]);
  expect(names("IMPORT", "sourceId")).toEqual([["db", "host", "port"]]);
  expect(names("DEPENDENCY", "sourceId")).toEqual([["db"]]);
  expect(names("DEPENDENCY", "targetId")).toEqual([["web"]]);
  expect(names("IMPORT", "targetId")).toEqual([]);
});
