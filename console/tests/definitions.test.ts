import { describe, expect, it } from "vitest";
import { kubeconfig } from "../src/access/kubeconfigs";
import { tagsOf } from "../src/clusters/JoinPage";
import type { GateType, PipelineDefinitionFragment, StepType } from "../src/api/generated";
import { attributesOf, complaints, definitionOf, written } from "../src/pipelines/definition";
import { at, GATE_KINDS, STEP_KINDS, withAt } from "../src/pipelines/gatekinds";
import { begun } from "../src/pipelines/RuleForm";
import { draftOf, missing } from "../src/services/draft";
import { STANDINGS } from "../src/services/standings";
import { verdictOf } from "../src/terminal/verdict";
import { judged } from "../src/text/judge";

const SERVICES = [{ id: "1", name: "dev/shop" }, { id: "2", name: "prod/shop" }];
const GOOD = `
stages:
  - {name: dev, services: [dev/shop]}
  - {name: prod, services: [prod/shop]}
edges:
  - {from: dev, to: prod, gates: [{name: ok, type: APPROVAL, quorum: 2}]}
`;
const wrong = (text: string) => complaints(definitionOf(judged(text).value), SERVICES);

describe("a pipeline that is written", () => {
  it("has nothing to complain of when it is right, and goes to the API by ids", () => {
    expect(wrong(GOOD)).toEqual([]);
    expect(attributesOf(definitionOf(judged(GOOD).value), SERVICES)).toEqual({
      stages: [{ name: "dev", services: [{ serviceId: "1" }] }, { name: "prod", services: [{ serviceId: "2" }] }],
      edges: [{ from: "dev", to: "prod", gates: [{ name: "ok", type: "APPROVAL", quorum: 2 }] }],
    });
  });

  it.each([
    ["", "name at least one"],
    [GOOD.replace("dev/shop", "dev/none"), "no service dev/none"],
    [GOOD.replace("to: prod", "to: moon"), "no stage moon"],
    [GOOD.replace("APPROVAL", "MAGIC"), "edges[0].gates[0].type: one of APPROVAL"],
    [GOOD.replace("APPROVAL", "WAIT"), "edges[0].gates[0].type: one of APPROVAL"],
    [GOOD.replace("quorum: 2", "quorum: two"), "edges[0].gates[0].quorum: a whole number is needed"],
    [GOOD.replace("quorum: 2", "quorun: 2"), "edges[0].gates[0].quorun: nothing is called so"],
    [GOOD.replace("quorum: 2", "job: {namespace: x, manifest: text}"), "job.manifest has to be an object"],
    [GOOD.replace("{name: prod", "{name: dev"), "dev is there already"],
  ])("is judged: %j", (text, complaint) => expect(wrong(text).join("\n")).toContain(complaint));

  it("bears any shape of YAML", () => {
    for (const text of ["stages: 7", "stages: [7, null]", "stages: {a: b}\nedges: x", "edges: [[]]"]) expect(wrong(text).length).toBeGreaterThan(0);
  });
});

describe("a pipeline that is there", () => {
  const rollout: PipelineDefinitionFragment["stages"][number]["rollout"] = { strategy: "ROLLING", maxUnavailable: 2, maxPerGroup: 0, maxFailed: 0, pauseSeconds: 0, canaries: [], canaryCount: 0, groups: [], waveSize: 0 };
  const gate = { id: "g", name: "smoke", type: "JOB", settings: '{"job":{"namespace":"x","manifest":{"kind":"Job"}},"attempts":3}' } as const;
  const service = { id: "1", name: "shop", cluster: { id: "c", handle: "dev" } };
  const dev = { id: "a", name: "dev", serviceNames: [], verification: { soakSeconds: 60, maxRestarts: 0, metric: null }, git: null, workflow: null, services: [{ service }], selector: null, rollout };
  const selector = { tags: [{ name: "stage", value: "prod" }], distro: null, projectId: null, groupIds: [], ignoredClusterIds: [] };
  const metric = { __typename: "ServiceMetricCheck", address: "shop/metrics:80", query: "up", comparison: "AT_LEAST", threshold: 1 } as const;
  const verification = { soakSeconds: 5, maxRestarts: 3, metric };
  const git = '{"changes":[{"kind":"IMAGE","path":"a.yaml","image":"shop"}]}';
  const workflow = { id: "w", settings: '{"steps":[{"name":"test","type":"JOB","job":{"namespace":"x","manifest":{"kind":"Job"}}}],"timeoutSeconds":60}' };
  const prod = { ...dev, id: "b", name: "prod", services: [], serviceNames: ["shop"], verification, git, workflow, selector };
  const trigger = { id: "t", name: "nightly", type: "SCHEDULE", settings: '{"cron":"0 3 * * *"}', git } as const;
  const there = { id: "p", name: "shop", onCommit: false, triggers: [trigger], stages: [dev, prod], edges: [{ id: "e", from: { id: "a", name: "dev" }, to: { id: "b", name: "prod" }, gates: [gate] }] };
  const definition = definitionOf(judged(written(there)).value);

  it("is written and sent with all that it has: roll-outs, selectors, proofs, git, workflows, gates of every kind, triggers", () => {
    expect(complaints(definition, SERVICES)).toEqual([]);
    expect(attributesOf(definition, SERVICES)).toEqual({
      stages: [
        { name: "dev", services: [{ serviceId: "1" }], rollout: { strategy: "ROLLING", maxUnavailable: 2 }, verification: { soakSeconds: 60, maxRestarts: 0 } },
        {
          name: "prod",
          serviceNames: ["shop"],
          selector: { tags: [{ name: "stage", value: "prod" }] },
          rollout: { strategy: "ROLLING", maxUnavailable: 2 },
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

  it.each(Object.keys(GATE_KINDS) as GateType[])("takes a gate of kind %s as its form begins it", (type) => {
    const [edge] = definition.edges;
    const changed = { ...definition, edges: edge === undefined ? [] : [{ ...edge, gates: [begun(GATE_KINDS, "one", type)] }] };
    expect(complaints(changed, SERVICES)).toEqual([]);
  });

  it.each(Object.keys(STEP_KINDS) as StepType[])("takes a step of kind %s as its form begins it", (type) => {
    const workflow = { steps: [begun(STEP_KINDS, "one", type)] };
    expect(complaints({ ...definition, stages: definition.stages.map((stage) => ({ ...stage, workflow })) }, SERVICES)).toEqual([]);
  });

  it.each([
    ["steps: [{type: WAIT, waitSeconds: 1}]", "has no name"],
    ["steps: [{name: a, type: WAIT, waitSeconds: 1, after: [b]}]", "there is no step b"],
    ["steps: [{name: a, type: JOB, job: {namespace: x, manifest: text}}]", "job.manifest has to be an object"],
    ["steps: [{name: a, type: SOAK}]", "workflow.steps[0].type: one of"],
    ["steps: 7", "workflow.steps: write a list here"],
  ])("is told what is wrong with the workflow of a stage: %j", (workflow, complaint) => {
    const changed = { ...definition, stages: definition.stages.map((stage) => ({ ...stage, workflow: judged(workflow).value })) };
    expect(complaints(changed, SERVICES).join("\n")).toContain(complaint);
  });

  it("is changed at one place only", () => {
    const gate = begun(GATE_KINDS, "one", "METRIC");
    const changed = withAt(gate, "metric.threshold", 0.5);
    expect(at(changed, "metric.threshold")).toBe(0.5);
    expect(at(changed, "metric.query")).toBe(at(gate, "metric.query"));
    expect(at(withAt(changed, "metric.threshold", undefined), "metric.threshold")).toBeUndefined();
  });
});

describe("a service that is written", () => {
  const draft = draftOf({ cluster: "dev", repository: "https://x", ref: "main", name: "shop", namespace: "shop" });

  it("is complete", () => expect(missing(draft, { clusterId: "c", repositoryId: "r" })).toEqual([]));
  it("says what it lacks", () => expect(missing(draftOf({ namespace: "No Good" }), { clusterId: null, repositoryId: null })).toHaveLength(5));
  it("names what is not here, once that is known", () => {
    expect(missing(draft, { clusterId: null, repositoryId: undefined })).toEqual(["no cluster dev here"]);
  });
});

it("reads tags as people write them", () => {
  expect(tagsOf(" region=eu-west,stage=prod  odd=a=b ")).toEqual([
    { name: "region", value: "eu-west" },
    { name: "stage", value: "prod" },
    { name: "odd", value: "a=b" },
  ]);
});

it("writes a kubeconfig without a secret, one context a cluster", () => {
  const text = kubeconfig("https://towline.example.org", ["dev", "prod"]);
  expect(text).toContain("https://towline.example.org/k8s/clusters/prod");
  expect(text).toContain("name: towline-dev");
  expect(text).not.toMatch(/token|twu_|password/);
});

it("says how a shell ended", () => {
  expect(verdictOf('{"status":"Success"}')).toBe("The shell has ended.");
  expect(verdictOf('{"status":"Failure","message":"exit code 3"}')).toBe("exit code 3");
  expect(verdictOf("plain words")).toBe("plain words");
});

it("has a sentence for every standing of a commit", () => {
  for (const { text } of Object.values(STANDINGS)) expect(text).toMatch(/\.$/);
});
