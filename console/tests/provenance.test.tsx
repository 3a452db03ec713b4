import { cleanup, render, screen } from "@testing-library/react";
import { Client, Provider, type Operation, type OperationResult } from "urql";
import { afterEach, expect, it } from "vitest";
import { filter, map, pipe } from "wonka";
import { Provenance } from "../src/services/Provenance";


const link = { stage: "BUNDLE", subject: "sha256:a", state: "VERIFIED", detail: "signed by the key k" };
const refused = { state: "FAILED", detail: "not a key of this cluster", at: "2026-01-02T03:04:05Z" };
const data = { serviceProvenance: { links: [{ ...link, agent: refused }, { ...link, stage: "RENDERER", detail: "", agent: null }] } };
const client = new Client({
  url: "/",
  preferGetMethod: false,
  exchanges: [() => (operations) => pipe(operations, filter(({ kind }) => kind !== "teardown"), map((operation: Operation) => ({ operation, data, error: undefined, stale: false, hasNext: false }) as OperationResult))],
});

afterEach(cleanup);

it("shows the agent's own check beside that of the control plane", () => {
  render(<Provider value={client}><Provenance serviceId="s" /></Provider>);
  const [bundle, renderer] = screen.getAllByRole("listitem");
  expect(bundle?.textContent).toContain("signed by the key k");
  expect(bundle?.textContent).toContain("by the agent");
  expect(bundle?.textContent).toContain("not a key of this cluster");
  expect(renderer?.textContent).not.toContain("by the agent");
});
