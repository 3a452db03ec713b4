import { act, cleanup, render, screen } from "@testing-library/react";
import { userEvent } from "@testing-library/user-event";
import { Client, CombinedError, Provider, type Operation, type OperationResult, type TypedDocumentNode } from "urql";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { map, pipe } from "wonka";
import { PagedTable } from "../src/ui/PagedTable";

type Data = { readonly rows: { readonly edges: { readonly node: string }[]; readonly pageInfo: { readonly hasNextPage: boolean; readonly endCursor: string | null }; readonly totalCount: number } };
type Variables = { readonly q: string; readonly after: string | null };

const QUERY = "query ($q: String!, $after: String) { rows }" as unknown as TypedDocumentNode<Data, Variables>;
const SIZE = 3;
let sights: { readonly target: Element; readonly tell: (isNear: boolean) => void }[] = [];

class Sight {
  constructor(private readonly tell: (entries: { readonly isIntersecting: boolean; readonly boundingClientRect: { readonly height: number } }[]) => void) {}
  observe(target: Element): void {
    sights.push({ target, tell: (isIntersecting) => this.tell([{ isIntersecting, boundingClientRect: { height: 90 } }]) });
  }
  disconnect(): void {}
}

/** Rows of a list of `total` with filter `q`: `q 0`, `q 1`, … */
function pageOf({ q, after }: Variables, total: number): Data {
  const begin = after === null ? 0 : Number(after);
  const end = Math.min(total, begin + SIZE);
  const edges = Array.from({ length: end - begin }, (_, index) => ({ node: `${q} ${begin + index}` }));
  return { rows: { edges, pageInfo: { hasNextPage: end < total, endCursor: end < total ? String(end) : null }, totalCount: total } };
}

function listed(total: number, q: string, errorNow: () => CombinedError | undefined = () => undefined) {
  const answer = (operation: Operation): OperationResult => {
    const error = errorNow();
    const data = error === undefined ? pageOf(operation.variables as Variables, total) : undefined;
    return { operation, data, error, stale: false, hasNext: false } as OperationResult;
  };
  const client = new Client({ url: "/", preferGetMethod: false, exchanges: [() => (operations) => pipe(operations, map(answer))] });
  const of = (filter: string) => (
    <Provider value={client}>
      <PagedTable
        label="Things"
        titles={["Thing"]}
        query={QUERY}
        variables={{ q: filter }}
        pick={({ rows }) => rows}
        row={(node) => (
          <tr key={node}>
            <td>{node}</td>
          </tr>
        )}
        counted={["thing", "things"]}
        empty={<p>No matching things</p>}
        follow={10}
      />
    </Provider>
  );
  return { ...render(of(q)), of };
}

beforeEach(() => {
  sights = [];
  vi.stubGlobal("IntersectionObserver", Sight);
});
afterEach(() => {
  cleanup();
  vi.unstubAllGlobals();
});

it("shows one page and the total, and loads more pages", async () => {
  listed(7, "a");
  expect(screen.getByText("7 things")).toBeTruthy();
  expect(screen.getByText("a 2")).toBeTruthy();
  expect(screen.queryByText("a 3")).toBeNull();
  await userEvent.click(screen.getByRole("button", { name: "Load more" }));
  expect(screen.getByText("a 5")).toBeTruthy();
  await userEvent.click(screen.getByRole("button", { name: "Load more" }));
  expect(screen.getByText("a 6")).toBeTruthy();
  expect(screen.queryByRole("button", { name: "Load more" })).toBeNull();
});

it("replaces rows far from the visible area by their height", () => {
  listed(7, "a");
  const body = sights.find(({ target }) => target.tagName === "TBODY");
  act(() => body?.tell(false));
  expect(screen.queryByText("a 0")).toBeNull();
  expect(document.querySelector<HTMLElement>("tbody div")?.style.height).toBe("90px");
  act(() => body?.tell(true));
  expect(screen.getByText("a 0")).toBeTruthy();
});

it("starts again with another filter", async () => {
  const { rerender, of } = listed(7, "a");
  await userEvent.click(screen.getByRole("button", { name: "Load more" }));
  rerender(of("b"));
  expect(screen.getByText("b 0")).toBeTruthy();
  expect(screen.queryByText("b 3")).toBeNull();
});

it("shows the empty state", () => {
  listed(0, "a");
  expect(screen.getByText("No matching things")).toBeTruthy();
});

it("keeps rows while the server is unavailable, and removes them after an API error", async () => {
  let error: CombinedError | undefined;
  listed(2, "a", () => error);
  error = new CombinedError({ networkError: new Error("away") });
  await act(() => new Promise((done) => setTimeout(done, 50)));
  expect(screen.getByText("a 1")).toBeTruthy();
  error = new CombinedError({ graphQLErrors: ["permission denied"] });
  expect(await screen.findByText("permission denied")).toBeTruthy();
  expect(screen.queryByText("a 1")).toBeNull();
});
