import { cleanup, render, screen } from "@testing-library/react";
import { GraphQLError } from "graphql";
import { Client, CombinedError, Provider, type Operation, type OperationResult } from "urql";
import { afterEach, expect, it, vi } from "vitest";
import { filter, map, pipe } from "wonka";
import { JobLog } from "../src/pipelines/JobLog";
import { History } from "../src/services/History";
import type { Service } from "../src/services/service";
import { ServiceChanges } from "../src/services/ServiceChanges";
import { FormBar } from "../src/ui/FormBar";
import { Problem } from "../src/ui/Problem";
import { ResourceError } from "../src/ui/ResourceNotFound";

afterEach(cleanup);

/** Client whose server always sends the same response and no events. */
function answering(data: object | null, code = ""): Client {
  const error = code === "" ? undefined : new CombinedError({ graphQLErrors: [new GraphQLError("no", { extensions: { code } })] });
  const answer = (operation: Operation): OperationResult => ({ operation, data, error, stale: false, hasNext: false }) as OperationResult;
  return new Client({
    url: "/",
    preferGetMethod: false,
    exchanges: [() => (operations) => pipe(operations, filter(({ kind }) => kind === "query"), map(answer))],
  });
}

const CHANGES = { serviceDiff: { oldDigest: "sha256:1", newDigest: "sha256:2", sha: "a", added: 1, removed: 0, changed: 2, objects: [] } };

it("warns that a release renders to another digest than the approved one", () => {
  const of = (expected: string) => (
    <Provider value={answering(CHANGES)}>
      <ServiceChanges serviceId="s" gitRef="a" expected={expected} />
    </Provider>
  );
  const { rerender } = render(of("sha256:2"));
  expect(screen.getByText("added", { exact: false }).textContent).toBe("1 added, 2 changed, 0 removed");
  expect(screen.queryByText(/now renders to/)).toBeNull();
  rerender(of("sha256:3"));
  expect(screen.getByText(/now renders to sha256:2/)).not.toBeNull();
});

it("reports a revision that does not exist", () => {
  render(
    <Provider value={answering(null, "NOT_FOUND")}>
      <ServiceChanges serviceId="s" gitRef="gone" />
    </Provider>,
  );
  expect(screen.getByText("Revision gone not found in the repository.")).not.toBeNull();
});

it("shows a problem if a service was deleted while its history is open", () => {
  const service = { id: "s", name: "web", components: [], cluster: { id: "c", handle: "dev" } } as unknown as Service;
  render(
    <Provider value={answering(null, "NOT_FOUND")}>
      <History service={service} />
    </Provider>,
  );
  expect(screen.getByRole("alert")).not.toBeNull();
});

it("links from a missing resource to its list, and shows other errors", () => {
  const failed = (code: string) => new CombinedError({ graphQLErrors: [new GraphQLError("could not find resource", { extensions: { code } })] });
  const { rerender } = render(<ResourceError error={failed("NOT_FOUND")} kind="service" />);
  expect(screen.getByRole("heading", { name: "Service not found" })).not.toBeNull();
  expect(screen.getByRole("link", { name: "All services" }).getAttribute("href")).toBe("/services");
  expect(screen.queryByText(/could not find/)).toBeNull();
  rerender(<ResourceError error={failed("FORBIDDEN")} kind="service" />);
  expect(screen.getByRole("alert").textContent).toContain("Permission denied.");
});

it("shows a job log in browsers whose scrollTo returns a promise", () => {
  vi.spyOn(console, "error");
  Object.defineProperty(Element.prototype, "scrollTo", { value: () => Promise.resolve(), configurable: true });
  const job = { id: "j", clusterId: "c", namespace: "x", phase: "SUCCEEDED", message: "", actor: "", exitCode: 0, insertedAt: "", startedAt: null, finishedAt: null, logTail: "done", object: null };
  const { unmount } = render(
    <Provider value={answering({ clusterJob: job })}>
      <JobLog id="j" />
    </Provider>,
  );
  expect(screen.getByRole("region", { name: "Job log" }).textContent).toBe("done");
  unmount();
  expect(console.error).not.toHaveBeenCalled();
});

it("shows missing fields as hints before the first input", () => {
  const { rerender } = render(<FormBar action="Go" busy={false} isTouched={false} complaints={["name is required"]} />);
  expect(screen.getByRole("listitem").textContent).toBe("○ name is required");
  rerender(<FormBar action="Go" busy={false} complaints={["name is required"]} />);
  expect(screen.getByRole("listitem").textContent).toBe("✕ name is required");
  expect(screen.getByRole<HTMLButtonElement>("button").disabled).toBe(true);
});

it("shows the request id of an internal error", () => {
  const error = new CombinedError({ graphQLErrors: [new GraphQLError("hidden", { extensions: { code: "INTERNAL", requestId: "896f07" } })] });
  render(<Problem error={error} />);
  expect(screen.getByRole("alert").textContent).toContain("Something went wrong (request 896f07).");
});

it("says that the connection failed if the server did not respond", () => {
  render(<Problem error={new CombinedError({ networkError: new Error("offline") })} />);
  expect(screen.getByRole("alert").textContent).toContain("Connection failed.");
});
