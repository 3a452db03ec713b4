import { expect, it, vi } from "vitest";
import type { HistoryQuery } from "../src/api/generated";
import { linksOf } from "../src/overview/links";
import { bytes, cores, quantity } from "../src/overview/quantities";
import { readStatus } from "../src/overview/workloadStatus";
import { approvalsOf, deploymentsOf, partialSyncsOf } from "../src/services/deployments";


it("reads quantities of Kubernetes", () => {
  expect(["250m", "1500000000n", "2", "1e3", "64Mi", "1G", "", "many"].map(quantity)).toEqual([0.25, 1.5, 2, 1000, 64 * 2 ** 20, 1e9, 0, 0]);
  expect([cores(0.25), cores(1.5), bytes(64 * 2 ** 20), bytes(0)]).toEqual(["250m", "1.5", "64 MiB", "0 B"]);
});

it("finds hostnames and annotations with addresses, and no other schemes", () => {
  const objects = [
    { kind: "Ingress", metadata: { name: "web" }, spec: { rules: [{ host: "shop.example.org" }, { host: "*.example.org" }, {}], tls: [{ hosts: ["shop.example.org"] }] } },
    { kind: "HTTPRoute", spec: { hostnames: ["api.example.org"] } },
    { kind: "Deployment", metadata: { annotations: { "link.argocd.argoproj.io/external-link": "Dashboards|https://grafana.example.org/d/1", evil: "x|javascript:alert(1)", note: "plain" } } },
  ];
  expect(linksOf(objects)).toEqual([
    { title: "shop.example.org", url: "https://shop.example.org/" },
    { title: "api.example.org", url: "https://api.example.org/" },
    { title: "Dashboards", url: "https://grafana.example.org/d/1" },
  ]);
});

const component = (kind: string, name: string, group: string | null) => ({ id: name, uid: `u-${name}`, ownerUid: null, group, version: "v1", kind, namespace: "shop", name, state: "RUNNING" as const, synced: true, message: null, images: [], updatedAt: "2026-11-28T10:00:00Z" });

it("adds up Pods of the service only, and says why there are no metrics", async () => {
  const answers: Readonly<Record<string, readonly [number, unknown]>> = {
    "/k8s/clusters/dev/apis/apps/v1/namespaces/shop/deployments/web": [200, { spec: { replicas: 3 }, status: { readyReplicas: 2 } }],
    "/k8s/clusters/dev/api/v1/namespaces/shop/pods": [200, { items: [{ metadata: { name: "web-1", uid: "u-web-1" }, status: { containerStatuses: [{ restartCount: 2 }, { restartCount: 1 }] } }, { metadata: { name: "other", uid: "u-other" }, status: { containerStatuses: [{ restartCount: 9 }] } }] }],
    "/k8s/clusters/dev/apis/metrics.k8s.io/v1beta1/namespaces/shop/pods": [404, { message: "the server could not find the requested resource" }],
  };
  vi.stubGlobal("fetch", (input: string) => {
    const [status, body] = answers[new URL(input, "https://x.example.org").pathname] ?? [500, {}];
    return Promise.resolve(new Response(JSON.stringify(body), { status }));
  });
  expect(await readStatus("dev", [component("Deployment", "web", "apps"), component("Pod", "web-1", null)])).toEqual({
    replicas: [{ id: "web", kind: "Deployment", name: "web", ready: 2, desired: 3 }],
    ...{ pods: 1, restarts: 3, cpu: null, memory: null, noMetrics: "The cluster has no metrics API: CPU and memory are not available." },
  });
});

it("says why metrics cannot be read", async () => {
  vi.stubGlobal("fetch", () => Promise.resolve(new Response(JSON.stringify({ message: "pods is forbidden" }), { status: 403 })));
  await expect(readStatus("dev", [])).resolves.toMatchObject({ noMetrics: "" });
  const answer = (input: string) => Promise.resolve(new Response(JSON.stringify(input.includes("metrics") ? { message: "pods is forbidden" } : { items: [] }), { status: input.includes("metrics") ? 403 : 200 }));
  vi.stubGlobal("fetch", answer);
  await expect(readStatus("dev", [component("Pod", "web-1", null)])).resolves.toMatchObject({ noMetrics: "CPU and memory are not available: pods is forbidden" });
});

it("makes a row of each deployment, with rollbacks as rows of their own", () => {
  const recorded = (sequence: number, revisionId: string) => ({ serviceId: "s", sequence, stage: "healthy", desiredAt: `2026-11-28T10:0${sequence}:00Z`, sha: "abc", revisionId, actor: "ann", healthyAt: null, failedAt: null, revertedAt: null, replacedAt: null });
  const entry = (sequence: number, stage: string, revisionId: string, detail = {}) => ({ node: { id: `${sequence}${stage}`, stage, sequence, digest: `d-${revisionId}`, revisionId, actor: "ann", message: stage, detail } });
  const revision = (id: string) => ({ node: { id, sha: "abc", digest: `d-${id}`, author: "ann", subject: `Subject ${id}` } });
  const data = {
    deploymentHistory: [recorded(3, "one"), recorded(2, "two"), recorded(1, "one")],
    revisions: { edges: [revision("one"), revision("two")] },
    ledger: { edges: [entry(3, "healthy", "one"), entry(3, "rolled-back", "one"), entry(2, "promoted", "two", { release: "r2" }), entry(1, "rendered", "one")] },
  } as unknown as HistoryQuery;
  const rows = deploymentsOf(data);
  expect(rows.map(({ cause, digest, release, revision: of }) => [cause, digest, release, of?.subject])).toEqual([["Rollback", "d-one", "", "Subject one"], ["Release", "d-two", "r2", "Subject two"], ["Commit", "d-one", "", "Subject one"]]);
  const event = (releaseId: string, text: string, actor: string) => ({ at: "2026-11-28T10:00:00Z", releaseId, text, actor, place: "sign-off" });
  expect(approvalsOf("r2", [event("r2", "approved: fine", "bob"), event("r2", "started", ""), event("r1", "approved: old", "eve")])).toEqual(["bob (sign-off)"]);
  expect(approvalsOf("", [event("r2", "approved: fine", "bob")])).toEqual([]);
});

it("lists syncs of some objects apart from deployments", () => {
  const entry = (stage: string, detail = {}) => ({ node: { id: stage, stage, at: "2026-11-28T10:00:00Z", sequence: 3, digest: null, revisionId: null, actor: "ann", message: "partial sync of ConfigMap shop/a succeeded", detail } });
  const data = { deploymentHistory: [], revisions: { edges: [] }, ledger: { edges: [entry("objects-synced", { result: "succeeded" }), entry("healthy")] } } as unknown as HistoryQuery;
  expect(deploymentsOf(data)).toEqual([]);
  expect(partialSyncsOf(data).map(({ id, result }) => [id, result])).toEqual([["objects-synced", "succeeded"]]);
});
