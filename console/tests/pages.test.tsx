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

/** The rows of a list of `total` whose filter is `q`: `q 0`, `q 1`, … */
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
        empty={<p>No thing is like that</p>}
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

it("shows a page, says how many there are, and goes on when it is asked to", async () => {
  listed(7, "a");
  expect(screen.getByText("7 things")).toBeTruthy();
  expect(screen.getByText("a 2")).toBeTruthy();
  expect(screen.queryByText("a 3")).toBeNull();
  await userEvent.click(screen.getByRole("button", { name: "More" }));
  expect(screen.getByText("a 5")).toBeTruthy();
  await userEvent.click(screen.getByRole("button", { name: "More" }));
  expect(screen.getByText("a 6")).toBeTruthy();
  expect(screen.queryByRole("button", { name: "More" })).toBeNull();
});

it("keeps of a page that is far from sight only its height", () => {
  listed(7, "a");
  const body = sights.find(({ target }) => target.tagName === "TBODY");
  act(() => body?.tell(false));
  expect(screen.queryByText("a 0")).toBeNull();
  expect(document.querySelector<HTMLElement>("tbody div")?.style.height).toBe("90px");
  act(() => body?.tell(true));
  expect(screen.getByText("a 0")).toBeTruthy();
});

it("begins anew with another filter", async () => {
  const { rerender, of } = listed(7, "a");
  await userEvent.click(screen.getByRole("button", { name: "More" }));
  rerender(of("b"));
  expect(screen.getByText("b 0")).toBeTruthy();
  expect(screen.queryByText("b 3")).toBeNull();
});

it("says what to do where there is nothing", () => {
  listed(0, "a");
  expect(screen.getByText("No thing is like that")).toBeTruthy();
});

it("keeps what it shows while the server is away, and nothing that is refused", async () => {
  let error: CombinedError | undefined;
  listed(2, "a", () => error);
  error = new CombinedError({ networkError: new Error("away") });
  await act(() => new Promise((done) => setTimeout(done, 50)));
  expect(screen.getByText("a 1")).toBeTruthy();
  error = new CombinedError({ graphQLErrors: ["you may not list things"] });
  expect(await screen.findByText("you may not list things")).toBeTruthy();
  expect(screen.queryByText("a 1")).toBeNull();
});
