import { ArrowDown, ArrowUp } from "lucide-react";
import { useId, useMemo, useState, type ReactNode } from "react";
import type { AnyVariables, TypedDocumentNode } from "urql";
import { PickAll, PickCell, SelectionBar } from "../bulk/Pick";
import { useSelection, type Selection } from "../bulk/useSelection";
import { Clip } from "../ui/Clip";
import { Empty } from "../ui/Empty";
import { MAX_PAGE, PagedTable, type Connection } from "../ui/PagedTable";
import { useParam } from "../ui/useParam";
import { useRowKeys } from "../ui/useRowKeys";
import { ListTools } from "./ListTools";
import "../bulk/bulk.css";
import "./lists.css";

export type Column<Node> = {
  readonly id: string;
  readonly title: string;
  readonly cell: (node: Node) => ReactNode;
  /** Value for the order of rows; without it, the column cannot be sorted. */
  readonly sort?: (node: Node) => string | number | null | undefined;
  /** True if it is hidden until the user selects it. */
  readonly isOptional?: boolean;
  readonly className?: string;
  /** True if the text can be long: it then gives way to other columns. */
  readonly isLong?: boolean;
};

export type ListProps<Data, Variables extends AnyVariables, Node> = {
  readonly label: string;
  /** Nouns of a row, singular and plural. */
  readonly counted: readonly [string, string];
  readonly columns: readonly Column<Node>[];
  readonly query: TypedDocumentNode<Data, Variables>;
  readonly variables: Omit<Variables, "after">;
  readonly pick: (data: Data) => Connection<Node>;
  readonly id: (node: Node) => string;
  readonly name: (node: Node) => string;
  readonly empty: ReactNode;
  readonly follow?: number | null;
  /** Errors of the filter. With one, there are no rows. */
  readonly problems?: readonly string[];
  readonly maxPage?: number;
  /** Actions for the selected rows; without them, rows cannot be selected. */
  readonly bulk?: (nodes: readonly Node[]) => ReactNode;
  /** Content below an open row. */
  readonly details?: (node: Node) => ReactNode;
};

type Order = { readonly id: string; readonly isDescending: boolean };

const orderOf = (text: string): Order => ({ id: text.replace(/^-/, ""), isDescending: text.startsWith("-") });

const compared = (left: string | number | null | undefined, right: string | number | null | undefined): number => {
  if (left == null || right == null) return Number(left == null) - Number(right == null);
  return typeof left === "number" && typeof right === "number" ? left - right : String(left).localeCompare(String(right), undefined, { numeric: true });
};

/** Columns that the address selects, or the usual ones. */
function shownColumns<Node>(columns: readonly Column<Node>[], param: string): readonly Column<Node>[] {
  const chosen = param.split(",").flatMap((id) => columns.find((column) => column.id === id) ?? []);
  return chosen.length === 0 ? columns.filter(({ isOptional = false }) => !isOptional) : chosen;
}

function Head<Node>({ column, order, onOrder }: { readonly column: Column<Node>; readonly order: Order; readonly onOrder: (order: string) => void }) {
  const { id, title, sort, className } = column;
  if (title === "") return <td />;
  const isSorted = order.id === id;
  const Arrow = order.isDescending ? ArrowDown : ArrowUp;
  const next = !isSorted ? id : order.isDescending ? "" : `-${id}`;
  return (
    <th scope="col" className={className} aria-sort={isSorted ? (order.isDescending ? "descending" : "ascending") : undefined}>
      {sort === undefined ? (
        title
      ) : (
        <button type="button" className="sort" onClick={() => onOrder(next)}>
          {title} {isSorted && <Arrow size={12} aria-hidden="true" />}
        </button>
      )}
    </th>
  );
}

/** Order of a list on a narrow screen, whose cards have no head with the titles of columns. */
function OrderField<Node>({ columns, order, onOrder }: { readonly columns: readonly Column<Node>[]; readonly order: string; readonly onOrder: (order: string) => void }) {
  const id = useId();
  const sorted = columns.filter(({ sort }) => sort !== undefined);
  if (sorted.length === 0) return null;
  const known = sorted.some((column) => column.id === orderOf(order).id);
  return (
    <div className="list-order">
      <label htmlFor={id}>Sort by</label>
      <select id={id} value={known ? order : ""} onChange={(event) => onOrder(event.target.value)}>
        <option value="">Usual order</option>
        {sorted.flatMap(({ id: column, title }) => [
          <option key={column} value={column}>
            {title}, ascending
          </option>,
          <option key={`-${column}`} value={`-${column}`}>
            {title}, descending
          </option>,
        ])}
      </select>
    </div>
  );
}

type RowProps<Node> = { readonly node: Node; readonly columns: readonly Column<Node>[]; readonly id: string; readonly name: string; readonly selection: Selection | null; readonly details: ReactNode };

function Row<Node>({ node, columns, id, name, selection, details }: RowProps<Node>) {
  return (
    <>
      <tr className={selection?.chosen.has(id) === true ? "chosen" : undefined}>
        {selection !== null && <PickCell id={id} name={name} selection={selection} />}
        {columns.map(({ id: key, cell, className, isLong = false }) => (
          <td key={key} className={className}>
            {isLong ? <Clip>{cell(node)}</Clip> : cell(node)}
          </td>
        ))}
      </tr>
      {details != null && details !== false && (
        <tr className="details">
          <td colSpan={columns.length + (selection === null ? 0 : 1)}>{details}</td>
        </tr>
      )}
    </>
  );
}

/** List with sorting, selectable columns and rows, saved views and export. The address has the state of the view. */
export function List<Data, Variables extends AnyVariables, Node>(props: ListProps<Data, Variables, Node>) {
  const { counted, problems = [] } = props;
  if (problems.length > 0) return <Empty title={`No ${counted[1]} shown`}>Correct the filter first.</Empty>;
  return <Rows {...props} />;
}

function Rows<Data, Variables extends AnyVariables, Node>(props: ListProps<Data, Variables, Node>) {
  const { label, counted, columns, query, variables, pick, id, name, empty, follow = null, maxPage = MAX_PAGE, bulk, details } = props;
  const [orderText, setOrder] = useParam("order");
  const [columnText, setColumns] = useParam("columns");
  const [nodes, setNodes] = useState<readonly Node[]>([]);
  useRowKeys();
  const ids = useMemo(() => (bulk === undefined ? [] : nodes.map(id)), [bulk, nodes, id]);
  const selection = useSelection(ids);
  const order = orderOf(orderText);
  const shown = shownColumns(columns, columnText);
  const key = columns.find((column) => column.id === order.id)?.sort;
  const { isDescending } = order;
  const sort = useMemo(() => {
    if (key === undefined) return null;
    return (rows: readonly Node[]) => [...rows].sort((left, right) => compared(key(left), key(right)) * (isDescending ? -1 : 1));
  }, [key, isDescending]);
  const head = (
    <>
      {bulk !== undefined && (
        <td className="pick">
          <PickAll selection={selection} />
        </td>
      )}
      {shown.map((column) => (
        <Head key={column.id} column={column} order={order} onOrder={setOrder} />
      ))}
    </>
  );
  return (
    <div className="list">
      <OrderField columns={columns} order={orderText} onOrder={setOrder} />
      <ListTools label={label} columns={columns} shown={shown} onColumns={setColumns} query={query} variables={variables} pick={pick} maxPage={maxPage} />
      <PagedTable
        label={label}
        titles={[...(bulk === undefined ? [] : [""]), ...shown.map(({ title }) => title)]}
        head={head}
        query={query}
        variables={variables}
        pick={pick}
        row={(node) => <Row key={id(node)} node={node} columns={shown} id={id(node)} name={name(node)} selection={bulk === undefined ? null : selection} details={details?.(node)} />}
        counted={counted}
        follow={follow}
        maxPage={maxPage}
        sort={sort}
        onNodes={setNodes}
        empty={empty}
      />
      {bulk !== undefined && <SelectionBar selection={selection}>{bulk(nodes.filter((node) => selection.chosen.has(id(node))))}</SelectionBar>}
    </div>
  );
}
