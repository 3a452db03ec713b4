import { describe, expect, it } from "vitest";
import { kubeconfig } from "../src/access/kubeconfigs";
import { tagsOf } from "../src/clusters/tags";
import type { GateType, PipelineDefinitionFragment, StepType } from "../src/api/generated";
import { attributesOf, complaints, definitionOf, written } from "../src/pipelines/definition";
import { GATE_KINDS, STEP_KINDS } from "../src/api/kinds";
import { at, withAt } from "../src/pipelines/gatekinds";
import { newRule } from "../src/pipelines/RuleForm";
import { draftOf, missing } from "../src/services/draft";
import { COMMIT_TEXTS } from "../src/services/commitStates";
import { exitMessage } from "../src/terminal/exitStatus";
import { parseMapping } from "../src/text/parseMapping";

const SERVICES = [{ id: "1", name: "dev/shop" }, { id: "2", name: "prod/shop" }];
const GOOD = `
stages:
  - {name: dev, services: [dev/shop]}
  - {name: prod, services: [prod/shop]}
edges:
  - {from: dev, to: prod, gates: [{name: ok, type: APPROVAL, quorum: 2}]}
`;
const wrong = (text: string) => complaints(definitionOf(parseMapping(text).value), SERVICES);

describe("a new pipeline", () => {
  it("passes validation and sends service ids to the API", () => {
    expect(wrong(GOOD)).toEqual([]);
    expect(attributesOf(definitionOf(parseMapping(GOOD).value), SERVICES)).toEqual({
      stages: [{ name: "dev", services: [{ serviceId: "1" }] }, { name: "prod", services: [{ serviceId: "2" }] }],
      edges: [{ from: "dev", to: "prod", gates: [{ name: "ok", type: "APPROVAL", quorum: 2 }] }],
    });
  });

  it.each([
    ["", "at least one is required"],
    [GOOD.replace("dev/shop", "dev/none"), "service dev/none not found"],
    [GOOD.replace("to: prod", "to: moon"), "stage moon not found"],
    [GOOD.replace("APPROVAL", "MAGIC"), "edges[0].gates[0].type: must be one of APPROVAL"],
    [GOOD.replace("APPROVAL", "WAIT"), "edges[0].gates[0].type: must be one of APPROVAL"],
    [GOOD.replace("quorum: 2", "quorum: two"), "edges[0].gates[0].quorum: must be a whole number"],
    [GOOD.replace("quorum: 2", "quorun: 2"), "edges[0].gates[0].quorun: unknown field"],
    [GOOD.replace("quorum: 2", "job: {namespace: x, manifest: text}"), "job.manifest must be a mapping"],
    [GOOD.replace("type: APPROVAL, quorum: 2", "type: VERSION, version: {service: prod/db, range: ^1}"), "version.service must be a service name without a cluster"],
    [GOOD.replace("{name: prod", "{name: dev"), "duplicate name dev"],
  ])("is validated: %j", (text, complaint) => expect(wrong(text).join("\n")).toContain(complaint));

  it("accepts YAML of any shape without a crash", () => {
    for (const text of ["stages: 7", "stages: [7, null]", "stages: {a: b}\nedges: x", "edges: [[]]"]) expect(wrong(text).length).toBeGreaterThan(0);
  });
});

describe("an existing pipeline", () => {
  const rollout: PipelineDefinitionFragment["stages"][number]["rollout"] = { strategy: "ROLLING", maxUnavailable: 2, maxPerGroup: 0, maxFailed: 0, pauseSeconds: 0, canaries: [], canaryCount: 0, groups: [], waveSize: 0, silentDeadlineSeconds: 1800, maxSilentPercent: 0 };
  const gate = { id: "g", name: "smoke", type: "JOB", settings: '{"job":{"namespace":"x","manifest":{"kind":"Job"}},"attempts":3}' } as const;
  const service = { id: "1", name: "shop", cluster: { id: "c", handle: "dev" } };
  const dev = { id: "a", name: "dev", serviceNames: [], verification: { soakSeconds: 60, maxRestarts: 0, metric: null }, git: null, workflow: null, services: [{ service }], selector: null, rollout };
  const selector = { tags: [{ name: "stage", value: "prod" }], distro: null, projectId: null, groupIds: [], ignoredClusterIds: [], matchExpressions: [] };
  const metric = { __typename: "ServiceMetricCheck", address: "shop/metrics:80", query: "up", comparison: "AT_LEAST", threshold: 1 } as const;
  const verification = { soakSeconds: 5, maxRestarts: 3, metric };
  const git = '{"changes":[{"kind":"IMAGE","path":"a.yaml","image":"shop"}]}';
  const workflow = { id: "w", settings: '{"steps":[{"name":"test","type":"JOB","job":{"namespace":"x","manifest":{"kind":"Job"}}}],"timeoutSeconds":60}' };
  const prod = { ...dev, id: "b", name: "prod", services: [], serviceNames: ["shop"], verification, git, workflow, selector };
  const trigger = { id: "t", name: "nightly", type: "SCHEDULE", settings: '{"cron":"0 3 * * *"}', git } as const;
  const there = { id: "p", name: "shop", onCommit: false, triggers: [trigger], stages: [dev, prod], edges: [{ id: "e", from: { id: "a", name: "dev" }, to: { id: "b", name: "prod" }, gates: [gate] }] };
  const definition = definitionOf(parseMapping(written(there)).value);

  it("keeps all settings from the API to YAML and back", () => {
    expect(complaints(definition, SERVICES)).toEqual([]);
    expect(attributesOf(definition, SERVICES)).toEqual({
      stages: [
        { name: "dev", services: [{ serviceId: "1" }], rollout: { strategy: "ROLLING", maxUnavailable: 2, maxSilentPercent: 0 }, verification: { soakSeconds: 60, maxRestarts: 0 } },
        {
          name: "prod",
          serviceNames: ["shop"],
          selector: { tags: [{ name: "stage", value: "prod" }] },
          rollout: { strategy: "ROLLING", maxUnavailable: 2, maxSilentPercent: 0 },
          verification: { soakSeconds: 5, maxRestarts: 3, metric: { address: "shop/metrics:80", query: "up", comparison: "AT_LEAST", threshold: 1 } },
          git: { changes: [{ kind: "IMAGE", path: "a.yaml", image: "shop" }] },
          workflow: { steps: [{ name: "test", type: "JOB", job: { namespace: "x", manifest: '{"kind":"Job"}' } }], timeoutSeconds: 60 },
        },
      ],
      edges: [{ from: "dev", to: "prod", gates: [{ name: "smoke", type: "JOB", attempts: 3, job: { namespace: "x", manifest: '{"kind":"Job"}' } }] }],
      onCommit: false,
      triggers: [{ name: "nightly", type: "SCHEDULE", cron: "0 3 * * *", git: { changes: [{ kind: "IMAGE", path: "a.yaml", image: "shop" }] } }],
    });
  });

  it.each(Object.keys(GATE_KINDS) as GateType[])("accepts a new gate of kind %s", (type) => {
    const [edge] = definition.edges;
    const changed = { ...definition, edges: edge === undefined ? [] : [{ ...edge, gates: [newRule(GATE_KINDS, "one", type)] }] };
    expect(complaints(changed, SERVICES)).toEqual([]);
  });

  it.each(Object.keys(STEP_KINDS) as StepType[])("accepts a new step of kind %s", (type) => {
    const workflow = { steps: [newRule(STEP_KINDS, "one", type)] };
    expect(complaints({ ...definition, stages: definition.stages.map((stage) => ({ ...stage, workflow })) }, SERVICES)).toEqual([]);
  });

  it.each([
    ["steps: [{type: WAIT, waitSeconds: 1}]", "has no name"],
    ["steps: [{name: a, type: WAIT, waitSeconds: 1, after: [b]}]", 'step b in "after" not found'],
    ["steps: [{name: a, type: JOB, job: {namespace: x, manifest: text}}]", "job.manifest must be a mapping"],
    ["steps: [{name: a, type: SOAK}]", "workflow.steps[0].type: must be one of"],
    ["steps: 7", "workflow.steps: must be a list"],
  ])("reports errors in the workflow of a stage: %j", (workflow, complaint) => {
    const changed = { ...definition, stages: definition.stages.map((stage) => ({ ...stage, workflow: parseMapping(workflow).value })) };
    expect(complaints(changed, SERVICES).join("\n")).toContain(complaint);
  });

  it("changes only the given path", () => {
    const gate = newRule(GATE_KINDS, "one", "METRIC");
    const changed = withAt(gate, "metric.threshold", 0.5);
    expect(at(changed, "metric.threshold")).toBe(0.5);
    expect(at(changed, "metric.query")).toBe(at(gate, "metric.query"));
    expect(at(withAt(changed, "metric.threshold", undefined), "metric.threshold")).toBeUndefined();
  });
});

describe("a new service", () => {
  const draft = draftOf({ cluster: "dev", repository: "https://x", ref: "main", name: "shop", namespace: "shop" });

  it("is complete", () => expect(missing(draft, { clusterId: "c", repositoryId: "r" })).toEqual([]));
  it("reports what is missing", () => expect(missing(draftOf({ namespace: "No Good" }), { clusterId: null, repositoryId: null })).toHaveLength(5));
  it("reports a cluster that does not exist after its lookup", () => {
    expect(missing(draft, { clusterId: null, repositoryId: undefined })).toEqual(["cluster dev not found"]);
  });
});

it("parses tags", () => {
  expect(tagsOf(" region=eu-west,stage=prod  odd=a=b ")).toEqual([
    { name: "region", value: "eu-west" },
    { name: "stage", value: "prod" },
    { name: "odd", value: "a=b" },
  ]);
});

it("creates a kubeconfig without a secret and with one context per cluster", () => {
  const text = kubeconfig("https://towline.example.org", ["dev", "prod"], null);
  expect(text).toContain("https://towline.example.org/k8s/clusters/prod");
  expect(text).toContain("name: towline-dev");
  expect(text).not.toMatch(/token|twu_|password/);
});

it("names clusters by their hosts in a kubeconfig, if they have a domain", () => {
  const text = kubeconfig("https://towline.example.org:8443", ["dev"], "clusters.example.org");
  expect(text).toContain("server: https://dev.clusters.example.org:8443\n");
  expect(text).toContain("- https://towline.example.org:8443\n");
  expect(kubeconfig("https://towline.example.org", ["dev"], "clusters.example.org")).toContain("server: https://dev.clusters.example.org\n");
});

it("shows the exit status of a shell", () => {
  expect(exitMessage('{"status":"Success"}')).toBe("Shell session ended.");
  expect(exitMessage('{"status":"Failure","message":"exit code 3"}')).toBe("exit code 3");
  expect(exitMessage("plain words")).toBe("plain words");
});

it("explains every state of a commit in one sentence", () => {
  for (const text of Object.values(COMMIT_TEXTS)) expect(text).toMatch(/\.$/);
});
