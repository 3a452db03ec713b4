import { useClient, type AnyVariables, type TypedDocumentNode } from "urql";
import { useDensity } from "../app/density";
import { reasonOf } from "../bulk/operation";
import { Menu } from "../ui/Menu";
import type { Connection } from "../ui/PagedTable";
import { Popover } from "../ui/Popover";
import { toast } from "../ui/toast";
import { allRows, download, toCsv, toJson, MAX_ROWS, PAGE_SIZE } from "./export";
import type { Column } from "./List";
import { SavedViews } from "./SavedViews";

type ColumnProps<Node> = { readonly columns: readonly Column<Node>[]; readonly shown: readonly Column<Node>[]; readonly onColumns: (ids: string) => void };

function Columns<Node>({ columns, shown, onColumns }: ColumnProps<Node>) {
  const toggle = (column: Column<Node>) => {
    const next = columns.filter((known) => (known === column ? !shown.includes(known) : shown.includes(known)));
    const isUsual = next.every(({ isOptional = false }) => !isOptional) && next.length === columns.filter(({ isOptional = false }) => !isOptional).length;
    onColumns(isUsual ? "" : next.map(({ id }) => id).join(","));
  };
  const [first] = columns;
  return (
    <fieldset>
      <legend>Columns</legend>
      {columns.map((column) =>
        column.title === "" ? null : (
          <label key={column.id} className="check">
            <input type="checkbox" checked={shown.includes(column)} disabled={column === first} onChange={() => toggle(column)} /> {column.title}
          </label>
        ),
      )}
    </fieldset>
  );
}

function Density() {
  const { density, choose } = useDensity();
  return (
    <fieldset>
      <legend>Rows</legend>
      {(["dense", "comfortable"] as const).map((option) => (
        <label key={option} className="check">
          <input type="radio" name="density" checked={density === option} onChange={() => choose(option)} /> {option === "dense" ? "Dense" : "Comfortable"}
        </label>
      ))}
    </fieldset>
  );
}

type Props<Data, Variables extends AnyVariables, Node> = ColumnProps<Node> & {
  readonly label: string;
  readonly query: TypedDocumentNode<Data, Variables>;
  readonly variables: object;
  readonly pick: (data: Data) => Connection<Node>;
  readonly maxPage: number;
};

/** Columns, density, saved views and export of a list. */
export function ListTools<Data, Variables extends AnyVariables, Node>({ label, query, variables, pick, maxPage, ...columns }: Props<Data, Variables, Node>) {
  const client = useClient();
  const save = async (format: "csv" | "json") => {
    try {
      const rows = await allRows(client, query, { ...variables, first: Math.min(maxPage, PAGE_SIZE) }, pick);
      const name = `${label.toLowerCase().replaceAll(" ", "-")}.${format}`;
      if (format === "csv") download(toCsv(rows), name, "text/csv");
      else download(toJson(rows), name, "application/json");
      toast(rows.length === MAX_ROWS ? `Exported the first ${MAX_ROWS.toLocaleString()} rows` : `Exported ${rows.length.toLocaleString()} rows`);
    } catch (error) {
      toast(`Export failed: ${reasonOf(error)}`);
    }
  };
  return (
    <div className="list-tools">
      <Popover title="View">
        {() => (
          <>
            <Columns {...columns} />
            <Density />
            <SavedViews />
          </>
        )}
      </Popover>
      <Menu
        title="Export"
        items={[
          { title: "Export as CSV", onSelect: () => void save("csv") },
          { title: "Export as JSON", onSelect: () => void save("json") },
        ]}
      />
    </div>
  );
}
