// Saved views of lists: a name for the filters, columns and order in the address of a list.
import type { SavedViewAttributes, SavedViewRowFragment } from "../api/generated";

/** Parameters of the address that belong to no view. */
const PASSING: readonly string[] = ["open", "new"];

/** Path of a list without its first slash, which names the list. */
export const listOf = (pathname: string): string => pathname.replace(/^\//, "");

/** Fields of a view with the parameters of an address. */
export function attributesOf(search: string): SavedViewAttributes {
  const { q = "", columns = "", order = "", ...others } = Object.fromEntries(new URLSearchParams(search));
  const filters = Object.fromEntries(Object.entries(others).filter(([name, value]) => value !== "" && !PASSING.includes(name)));
  return { query: q, columns: columns === "" ? [] : columns.split(","), order, filters };
}

type Content = Pick<SavedViewRowFragment, "list" | "query" | "filters" | "columns" | "order">;

/** Address of a list with the parameters of a view. */
export function addressOf({ list, query, filters, columns, order }: Content): string {
  const given = Object.entries({ ...filters, q: query, columns: columns.join(","), order });
  const params = new URLSearchParams(given.flatMap(([name, value]) => (typeof value === "string" && value !== "" ? [[name, value]] : [])));
  params.sort();
  return params.size === 0 ? `/${list}` : `/${list}?${params.toString()}`;
}
