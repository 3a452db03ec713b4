import { describe, expect, it } from "vitest";
import { kubeconfig } from "../src/access/kubeconfigs";
import { tagsOf } from "../src/clusters/JoinPage";
import { attributesOf, complaints, definitionOf } from "../src/pipelines/definition";
import { draftOf, missing } from "../src/services/draft";
import { STANDINGS } from "../src/services/standings";
import { verdictOf } from "../src/terminal/verdict";
import { judged } from "../src/text/judge";

const SERVICES = [{ id: "1", name: "dev/shop" }, { id: "2", name: "prod/shop" }];
const TYPES = ["APPROVAL", "SOAK"] as const;
const GOOD = `
stages:
  - {name: dev, services: [dev/shop]}
  - {name: prod, services: [prod/shop]}
edges:
  - {from: dev, to: prod, gates: [{name: ok, type: APPROVAL, quorum: 2}]}
`;
const wrong = (text: string) => complaints(definitionOf(judged(text).value), SERVICES, [...TYPES]);

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
    [GOOD.replace("APPROVAL", "MAGIC"), "MAGIC is no type of gate"],
    [GOOD.replace("{name: prod", "{name: dev"), "dev is there already"],
  ])("is judged: %j", (text, complaint) => expect(wrong(text).join("\n")).toContain(complaint));

  it("bears any shape of YAML", () => {
    for (const text of ["stages: 7", "stages: [7, null]", "stages: {a: b}\nedges: x", "edges: [[]]"]) expect(wrong(text).length).toBeGreaterThan(0);
  });
});

describe("a service that is written", () => {
  const draft = draftOf({ cluster: "dev", repository: "https://x", ref: "main", name: "shop", namespace: "shop" });

  it("is complete", () => expect(missing(draft, [{ handle: "dev" }], [{ url: "https://x" }])).toEqual([]));
  it("says what it lacks", () => expect(missing(draftOf({ namespace: "No Good" }), [], [])).toHaveLength(5));
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
