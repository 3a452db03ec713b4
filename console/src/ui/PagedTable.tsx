import { useCallback, useEffect, useRef, useState, type ReactNode, type RefObject } from "react";
import { useQuery, type AnyVariables, type TypedDocumentNode } from "urql";
import { More } from "./More";
import { Problem } from "./Problem";
import { Skeleton } from "./Skeleton";
import { TableFrame } from "./Table";

type Connection<Node> = {
  readonly edges: readonly { readonly node: Node }[];
  readonly pageInfo: { readonly hasNextPage: boolean; readonly endCursor: string | null };
  readonly totalCount?: number | null;
  readonly totalCountKind?: "EXACT" | "AT_LEAST" | null;
};

type Props<Data, Variables extends AnyVariables, Node> = {
  readonly label: string;
  readonly titles: readonly string[];
  readonly query: TypedDocumentNode<Data, Variables>;
  readonly variables: Omit<Variables, "after">;
  readonly pick: (data: Data) => Connection<Node>;
  readonly row: (node: Node) => ReactNode;
  readonly empty: ReactNode;
  /** What a row is, one and many: how many there are is said above the table. */
  readonly counted?: readonly [string, string];
  /** Milliseconds after which the first page is asked for again, and again. */
  readonly follow?: number | null;
};

type Told = { readonly rows: number; readonly next: string | null; readonly count: string };

// So far out of sight, in pixels, rows are an empty space of their height.
const MARGIN = 1500;

function countOf<Node>({ totalCount, totalCountKind }: Connection<Node>, [one, many]: readonly [string, string]): string {
  if (totalCount == null) return "";
  return `${totalCountKind === "AT_LEAST" ? "more than " : ""}${totalCount.toLocaleString()} ${totalCount === 1 ? one : many}`;
}

/** The height of a body that is far from sight; null while it is near. */
function useFar(body: RefObject<HTMLTableSectionElement | null>, isThere: boolean): number | null {
  const [far, setFar] = useState<number | null>(null);
  useEffect(() => {
    if (body.current === null || !isThere) return undefined;
    const observer = new IntersectionObserver(
      ([entry]) => setFar(entry === undefined || entry.isIntersecting ? null : entry.boundingClientRect.height),
      { rootMargin: `${MARGIN}px 0px` },
    );
    observer.observe(body.current);
    return () => observer.disconnect();
  }, [body, isThere]);
  return far;
}

/** The last value that was one. */
function useLast<Value>(value: Value | null | undefined): Value | undefined {
  const [last, setLast] = useState<Value>();
  if (value != null && value !== last) setLast(value);
  return value ?? last;
}

type PageProps<Data, Variables extends AnyVariables, Node> = Props<Data, Variables, Node> & {
  readonly after: string | null;
  readonly tell: (after: string | null, told: Told) => void;
};

function Page<Data, Variables extends AnyVariables, Node>({ titles, query, variables, pick, row, counted, follow, after, tell }: PageProps<Data, Variables, Node>) {
  const body = useRef<HTMLTableSectionElement>(null);
  // Every document of a list takes `after` beside what filters it.
  const [{ data, error }, again] = useQuery<Data>({ query, variables: { ...variables, after } });
  const kept = useLast(data);
  // With the server away the last answer stays; a refusal takes it back.
  const isRefused = (error?.graphQLErrors.length ?? 0) > 0;
  const shown = data ?? (isRefused ? undefined : kept);
  const connection = shown == null ? undefined : pick(shown);
  const far = useFar(body, connection !== undefined);
  const next = connection?.pageInfo.hasNextPage === true ? connection.pageInfo.endCursor : null;
  const rows = connection?.edges.length;
  const count = connection === undefined || counted === undefined ? "" : countOf(connection, counted);
  useEffect(() => {
    if (rows !== undefined) tell(after, { rows, next, count });
  }, [tell, after, rows, next, count]);
  useEffect(() => {
    if (follow == null) return undefined;
    const timer = setInterval(() => again({ requestPolicy: "network-only" }), follow);
    return () => clearInterval(timer);
  }, [follow, again]);
  const filled = (content: ReactNode) => (
    <tr>
      <td colSpan={titles.length}>{content}</td>
    </tr>
  );
  return (
    <tbody ref={body}>
      {connection !== undefined && far === null && connection.edges.map(({ node }) => row(node))}
      {connection !== undefined && far !== null && filled(<div style={{ height: far }} />)}
      {connection === undefined && filled(error === undefined ? <Skeleton lines={8} /> : <Problem error={error} />)}
    </tbody>
  );
}

function Rows<Data, Variables extends AnyVariables, Node>(props: Props<Data, Variables, Node>) {
  const [cursors, setCursors] = useState<readonly (string | null)[]>([null]);
  const [told, setTold] = useState<ReadonlyMap<string | null, Told>>(new Map());
  const tell = useCallback((after: string | null, what: Told) => setTold((known) => new Map(known).set(after, what)), []);
  const next = told.get(cursors.at(-1) ?? null)?.next ?? null;
  const more = useCallback(() => {
    if (next !== null) setCursors((known) => (known.includes(next) ? known : [...known, next]));
  }, [next]);
  const first = told.get(null);
  const isEmpty = first?.rows === 0 && next === null;
  return (
    <>
      {isEmpty && props.empty}
      {!isEmpty && first !== undefined && first.count !== "" && <p className="quiet count">{first.count}</p>}
      {/* While it is empty, it is still asked for: the first row appears by itself. */}
      <div hidden={isEmpty}>
        <TableFrame label={props.label} titles={props.titles}>
          {cursors.map((after, index) => (
            <Page key={after ?? ""} {...props} follow={index === 0 ? (props.follow ?? null) : null} after={after} tell={tell} />
          ))}
        </TableFrame>
      </div>
      {next !== null && <More onMore={more} />}
    </>
  );
}

/** A list of any length: pages by cursor as one scrolls, only those near to sight as rows of the page. */
export function PagedTable<Data, Variables extends AnyVariables, Node>(props: Props<Data, Variables, Node>) {
  return <Rows key={JSON.stringify(props.variables)} {...props} />;
}
