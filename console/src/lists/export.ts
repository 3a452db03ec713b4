// Export of a list as JSON or CSV.
import type { AnyVariables, Client, TypedDocumentNode } from "urql";
import type { Connection } from "../ui/PagedTable";

/** Rows of one request at most. */
export const PAGE_SIZE = 500;

/** Maximum number of exported rows. */
export const MAX_ROWS = 20_000;

/** Reads all pages of a list, up to the limit. */
export async function allRows<Data, Variables extends AnyVariables, Node>(client: Client, query: TypedDocumentNode<Data, Variables>, variables: object, pick: (data: Data) => Connection<Node>): Promise<readonly Node[]> {
  const rows: Node[] = [];
  let after: string | null = null;
  do {
    const { data, error } = await client.query<Data>(query, { ...variables, after }, { requestPolicy: "network-only" }).toPromise();
    if (data == null) throw error ?? new Error("the control plane returned no rows");
    const { edges, pageInfo } = pick(data);
    rows.push(...edges.map(({ node }) => node));
    after = pageInfo.hasNextPage ? pageInfo.endCursor : null;
  } while (after !== null && rows.length < MAX_ROWS);
  return rows.slice(0, MAX_ROWS);
}

type Flat = Readonly<Record<string, string>>;

/** Scalar fields of a row by path, such as `cluster.handle`; lists are joined by a space. */
function flat(value: unknown, path = ""): Flat {
  if (value === null || value === undefined) return path === "" ? {} : { [path]: "" };
  if (Array.isArray(value)) return { [path]: value.map((item) => (typeof item === "object" ? Object.entries(flat(item)).map(([, text]) => text).join("=") : String(item))).join(" ") };
  if (typeof value !== "object") return { [path]: typeof value === "string" ? value : JSON.stringify(value) };
  return Object.assign({}, ...Object.entries(value).filter(([name]) => name !== "__typename").map(([name, part]) => flat(part, path === "" ? name : `${path}.${name}`))) as Flat;
}

// A spreadsheet runs a cell that starts with one of these as a formula.
const FORMULA = /^[=+\-@\t\r]/;

function cell(text: string): string {
  const safe = FORMULA.test(text) ? `'${text}` : text;
  return /[",\n\r]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}

/** CSV of rows with a header line (RFC 4180). */
export function toCsv(rows: readonly unknown[]): string {
  const records = rows.map((row) => flat(row));
  const names = [...new Set(records.flatMap((record) => Object.keys(record)))];
  return [names, ...records.map((record) => names.map((name) => record[name] ?? ""))].map((line) => line.map(cell).join(",")).join("\r\n") + "\r\n";
}

/** JSON of rows without the type names of the cache. */
export const toJson = (rows: readonly unknown[]): string => `${JSON.stringify(rows, (name, value: unknown) => (name === "__typename" ? undefined : value), 2)}\n`;

/** Offers a text as a file. */
export function download(text: string, name: string, type: string): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type }));
  link.download = name;
  link.click();
  URL.revokeObjectURL(link.href);
}
