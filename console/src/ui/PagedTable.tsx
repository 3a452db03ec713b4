import { useCallback, useEffect, useRef, useState, useSyncExternalStore, type ReactNode, type RefObject } from "react";
import { useQuery, type AnyVariables, type TypedDocumentNode } from "urql";
import { useFollow } from "../live/useFollow";
import { More } from "./More";
import { Problem } from "./Problem";
import { Skeleton } from "./Skeleton";
import { TableFrame } from "./Table";
import { useLast } from "./useLast";

export type Connection<Node> = {
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
  /** Cells of the head; without them, it has the titles. */
  readonly head?: ReactNode;
  readonly className?: string;
  /** Rows of a page at most. Default: 1,000. */
  readonly maxPage?: number;
  /** Sorts the rows. The list then has one page, as large as possible. */
  readonly sort?: ((nodes: readonly Node[]) => readonly Node[]) | null;
  /** Gets all loaded rows. */
  readonly onNodes?: (nodes: readonly Node[]) => void;
  /** Noun of a row, singular and plural, for the count above the table. */
  readonly counted?: readonly [string, string];
  /** Interval in milliseconds at which the pages near the visible area are fetched again. */
  readonly follow?: number | null;
};

type PageInfo<Node> = { readonly nodes: readonly Node[]; readonly next: string | null; readonly count: string };

/** Rows of a page at most, if the API allows no other number. */
export const MAX_PAGE = 1000;

// Rows further than this from the visible area, in pixels, are replaced by an empty space.
const MARGIN = 1500;

function countOf<Node>({ totalCount, totalCountKind }: Connection<Node>, [singular, plural]: readonly [string, string]): string {
  if (totalCount == null) return "";
  return `${totalCountKind === "AT_LEAST" ? "more than " : ""}${totalCount.toLocaleString()} ${totalCount === 1 ? singular : plural}`;
}

/** Height of a table body far from the visible area; null while it is near. */
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

/** Whether the page is being printed: then all loaded rows are on paper, not only those near the visible area. */
const usePrinting = (): boolean =>
  useSyncExternalStore(
    (listener) => {
      const ended = new AbortController();
      matchMedia("print").addEventListener("change", listener, { signal: ended.signal });
      return () => ended.abort();
    },
    () => matchMedia("print").matches,
  );

type PageProps<Data, Variables extends AnyVariables, Node> = Props<Data, Variables, Node> & {
  readonly after: string | null;
  readonly report: (after: string | null, info: PageInfo<Node>) => void;
};

function Page<Data, Variables extends AnyVariables, Node>({ titles, query, variables, pick, row, counted, follow, sort, maxPage = MAX_PAGE, after, report }: PageProps<Data, Variables, Node>) {
  const body = useRef<HTMLTableSectionElement>(null);
  // Every list query takes `after` in addition to its filters.
  const [{ data, error }, refetch] = useQuery<Data>({ query, variables: { ...variables, ...(sort == null ? {} : { first: maxPage }), after } });
  const kept = useLast(data);
  // Keep the last answer while the server is unavailable; an error of the API replaces it.
  const isRefused = (error?.graphQLErrors.length ?? 0) > 0;
  const shown = data ?? (isRefused ? undefined : kept);
  const connection = shown == null ? undefined : pick(shown);
  const isPrinting = usePrinting();
  const away = useFar(body, connection !== undefined);
  const far = isPrinting ? null : away;
  const next = connection?.pageInfo.hasNextPage === true ? connection.pageInfo.endCursor : null;
  const nodes = connection?.edges.map(({ node }) => node);
  const count = connection === undefined || counted === undefined ? "" : countOf(connection, counted);
  useEffect(() => {
    // Depends on the answer, because `pick` may make another connection of it each time.
    if (shown != null) report(after, { nodes: pick(shown).edges.map(({ node }) => node), next, count });
  }, [report, after, shown, pick, next, count]);
  useFollow(refetch, far === null ? (follow ?? null) : null);
  const filled = (content: ReactNode) => (
    <tr>
      <td colSpan={titles.length}>{content}</td>
    </tr>
  );
  return (
    <tbody ref={body}>
      {nodes !== undefined && far === null && (sort == null ? nodes : sort(nodes)).map((node) => row(node))}
      {nodes !== undefined && far !== null && filled(<div style={{ height: far }} />)}
      {nodes === undefined && filled(error === undefined ? <Skeleton lines={8} /> : <Problem error={error} />)}
    </tbody>
  );
}

function Rows<Data, Variables extends AnyVariables, Node>(props: Props<Data, Variables, Node>) {
  const [cursors, setCursors] = useState<readonly (string | null)[]>([null]);
  const [pages, setPages] = useState<ReadonlyMap<string | null, PageInfo<Node>>>(new Map());
  const report = useCallback((after: string | null, info: PageInfo<Node>) => setPages((known) => new Map(known).set(after, info)), []);
  const { onNodes, sort } = props;
  const next = pages.get(cursors.at(-1) ?? null)?.next ?? null;
  const more = useCallback(() => {
    if (next !== null) setCursors((known) => (known.includes(next) ? known : [...known, next]));
  }, [next]);
  const first = pages.get(null);
  const isEmpty = first?.nodes.length === 0 && next === null;
  useEffect(() => {
    const loaded = cursors.flatMap((after) => pages.get(after)?.nodes ?? []);
    onNodes?.(sort == null ? loaded : sort(loaded));
  }, [cursors, pages, onNodes, sort]);
  return (
    <>
      {isEmpty && props.empty}
      {!isEmpty && first !== undefined && first.count !== "" && (
        <p className="quiet count">
          {first.count}
          {sort != null && next !== null && `; only the first ${(props.maxPage ?? MAX_PAGE).toLocaleString()} are shown in this order: narrow the filter`}
        </p>
      )}
      {/* An empty list still polls, so that the first row appears without a reload. */}
      <div hidden={isEmpty}>
        <TableFrame label={props.label} titles={props.titles} head={props.head} {...(props.className === undefined ? {} : { className: props.className })}>
          {cursors.map((after) => (
            <Page key={after ?? ""} {...props} after={after} report={report} />
          ))}
        </TableFrame>
      </div>
      {next !== null && sort == null && <More onMore={more} />}
    </>
  );
}

/** Table with cursor pagination: loads pages while the user scrolls and renders only those near the visible area. */
export function PagedTable<Data, Variables extends AnyVariables, Node>(props: Props<Data, Variables, Node>) {
  return <Rows key={JSON.stringify([props.variables, props.sort == null])} {...props} />;
}
