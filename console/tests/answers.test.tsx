import { cleanup, render, screen } from "@testing-library/react";
import { GraphQLError } from "graphql";
import { Client, CombinedError, Provider, type Operation, type OperationResult } from "urql";
import { afterEach, expect, it, vi } from "vitest";
import { filter, map, pipe } from "wonka";
import { JobLog } from "../src/pipelines/JobLog";
import { ServiceChanges } from "../src/services/ServiceChanges";
import { FormBar } from "../src/ui/FormBar";
import { NotShown } from "../src/ui/NotThere";

afterEach(cleanup);

/** A server that has one answer, and tells of no change. */
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

it("says that a release has become something else than what would be approved", () => {
  const of = (expected: string) => (
    <Provider value={answering(CHANGES)}>
      <ServiceChanges serviceId="s" gitRef="a" expected={expected} />
    </Provider>
  );
  const { rerender } = render(of("sha256:2"));
  expect(screen.getByText("added", { exact: false }).textContent).toBe("1 added, 2 changed, 0 removed");
  expect(screen.queryByText(/By now it comes to/)).toBeNull();
  rerender(of("sha256:3"));
  expect(screen.getByText(/By now it comes to sha256:2/)).not.toBeNull();
});

it("does not call new what cannot be found", () => {
  render(
    <Provider value={answering(null, "NOT_FOUND")}>
      <ServiceChanges serviceId="s" gitRef="gone" />
    </Provider>,
  );
  expect(screen.getByText("Its repository has no gone.")).not.toBeNull();
});

it("leads back from what was deleted, and says why something else cannot be shown", () => {
  const failed = (code: string) => new CombinedError({ graphQLErrors: [new GraphQLError("could not find resource", { extensions: { code } })] });
  const { rerender } = render(<NotShown error={failed("NOT_FOUND")} what="service" />);
  expect(screen.getByRole("heading", { name: "No such service" })).not.toBeNull();
  expect(screen.getByRole("link", { name: "All services" }).getAttribute("href")).toBe("/services");
  expect(screen.queryByText(/could not find/)).toBeNull();
  rerender(<NotShown error={failed("FORBIDDEN")} what="service" />);
  expect(screen.getByRole("alert").textContent).toContain("Not allowed.");
});

it("shows a job's log where scrolling answers with a promise", () => {
  vi.spyOn(console, "error");
  Object.defineProperty(Element.prototype, "scrollTo", { value: () => Promise.resolve(), configurable: true });
  const job = { id: "j", clusterId: "c", namespace: "x", phase: "SUCCEEDED", message: "", actor: "", exitCode: 0, insertedAt: "", startedAt: null, finishedAt: null, logTail: "done", object: null };
  const { unmount } = render(
    <Provider value={answering({ clusterJob: job })}>
      <JobLog id="j" />
    </Provider>,
  );
  expect(screen.getByRole("region", { name: "Log of the job" }).textContent).toBe("done");
  unmount();
  expect(console.error).not.toHaveBeenCalled();
});

it("says what there is to do before it complains", () => {
  const { rerender } = render(<FormBar action="Go" busy={false} isBegun={false} complaints={["give it a name"]} />);
  expect(screen.getByRole("listitem").textContent).toBe("○ give it a name");
  rerender(<FormBar action="Go" busy={false} complaints={["give it a name"]} />);
  expect(screen.getByRole("listitem").textContent).toBe("✕ give it a name");
  expect(screen.getByRole<HTMLButtonElement>("button").disabled).toBe(true);
});
