// Groups of the map: by project, or by a tag such as region or stage.
import type { MapRowFragment } from "../api/generated";

export type Part = { readonly title: string; readonly rows: readonly MapRowFragment[] };

/** Tag names of all clusters, most used first. */
export function tagNames(rows: readonly MapRowFragment[]): readonly string[] {
  const uses = new Map<string, number>();
  for (const { tags } of rows) for (const { name } of tags) uses.set(name, (uses.get(name) ?? 0) + 1);
  return [...uses.entries()].sort(([, left], [, right]) => right - left).map(([name]) => name);
}

/** Groups rows. `by`: empty (one group), `project`, or `tag:<name>`. */
export function partsOf(rows: readonly MapRowFragment[], by: string, projects: ReadonlyMap<string, string>): readonly Part[] {
  if (by === "") return [{ title: "", rows }];
  const titleOf = (row: MapRowFragment) =>
    by === "project"
      ? (projects.get(row.projectId ?? "") ?? "no project")
      : (row.tags.find(({ name }) => `tag:${name}` === by)?.value ?? `no ${by.slice(4)}`);
  const parts = new Map<string, MapRowFragment[]>();
  for (const row of rows) {
    const title = titleOf(row);
    const part = parts.get(title);
    if (part === undefined) parts.set(title, [row]);
    else part.push(row);
  }
  return [...parts.entries()].sort(([left], [right]) => (left < right ? -1 : 1)).map(([title, part]) => ({ title, rows: part }));
}
