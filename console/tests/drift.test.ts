import { expect, it } from "vitest";
import { differencesOf, type FieldOwner } from "../src/objects/fields";
import { attributesOf } from "../src/services/syncOptions";

const owner = (pointer: string, manager: string): FieldOwner => ({ pointer, manager, value: "", operation: "Update", subresource: null, at: null, person: null, requestId: null, isOldestRevision: false, revision: null });

const GIT = JSON.stringify({ spec: { replicas: 2, template: { labels: { "a/b": "1" } }, ports: [{ port: 80 }] } });
const CLUSTER = JSON.stringify({ spec: { replicas: 3, template: { labels: { "a/b": "2" } }, ports: [{ port: 80 }, { port: 81 }] } });

it("names each field that differs, with both values", () => {
  const found = differencesOf(GIT, CLUSTER, []);
  expect(found?.map(({ pointer, git, cluster }) => [pointer, git, cluster])).toEqual([
    ["/spec/replicas", "2", "3"],
    ["/spec/template/labels/a~1b", '"1"', '"2"'],
    ["/spec/ports/1", null, '{"port":81}'],
  ]);
  expect(differencesOf(GIT, GIT, [])).toEqual([]);
});

it("names the owner that is not Towline", () => {
  const owners = [owner("/spec/replicas", "towline"), owner("/spec/replicas", "kubectl-edit"), owner("/spec/replicasMin", "other")];
  expect(differencesOf(GIT, CLUSTER, owners)?.[0]?.owner?.manager).toBe("kubectl-edit");
});

it("finds the owner of a field inside of a list", () => {
  const owners = [owner("/spec/ports/1/port", "controller")];
  expect(differencesOf(GIT, CLUSTER, owners)?.[2]?.owner?.manager).toBe("controller");
});

it("compares a missing object and other text as a whole", () => {
  expect(differencesOf("{}", '{"a":null}', [])?.map(({ git, cluster }) => [git, cluster])).toEqual([[null, "null"]]);
  expect(differencesOf("kind: x", "{}", [])).toBeUndefined();
});

it("keeps all sync options that a change does not name", () => {
  const options = {
    createNamespace: true, driftPolicy: "HEAL" as const, keepOnPrune: false, failOnConflict: true, replaceImmutable: true, waveTimeout: 60, deletionBudget: 5,
    diffNormalizers: [{ group: "apps", kind: "Deployment", namespace: null, name: null, jsonPointers: ["/spec/replicas"], managers: [] }],
    healthRules: [{ group: "x", kind: "Y", message: null, state: "RUNNING" as const, conditions: [{ pointer: "/a", anyOf: ["1"] }] }],
    namespaceMetadata: { labels: { team: "a" }, annotations: null },
  };
  expect(attributesOf(options)).toEqual({ ...options, namespaceMetadata: { labels: '{"team":"a"}', annotations: "{}" } });
});
