// Filter of a list of named resources: words and labels.
import { useParam } from "../ui/useParam";
import { parseQuery, type Conditions } from "./conditions";
import { labelConditions } from "./serviceFilter";

export type ListFilter = { readonly q: string | null; readonly labels: string | null };

export const LABEL_CONDITIONS: Conditions = { label: { example: "label:team=a,tier!=web" } };

/** Filter in the address, with its errors. */
export function useListFilter(): { readonly filter: ListFilter; readonly problems: readonly string[]; readonly isFiltered: boolean } {
  const [q] = useParam("q");
  const parsed = parseQuery(q, LABEL_CONDITIONS);
  return { filter: { q: parsed.text || null, labels: labelConditions(parsed) }, problems: parsed.problems, isFiltered: q !== "" };
}
