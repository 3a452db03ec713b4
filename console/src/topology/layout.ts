// Layered layout of a topology: owners and inputs left, owned objects right. Linear in the number of nodes and edges,
// up to the sort of a column.
import type { Edge, Graph } from "./graph";

export const NODE = { width: 216, height: 48 };
const COLUMN = NODE.width + 64;
const ROW = NODE.height + 12;
const GAP = 28;
const LONE_COLUMNS = 5;

export type Place = { readonly x: number; readonly y: number };
export type Layout = { readonly places: ReadonlyMap<string, Place>; readonly width: number; readonly height: number };

type Links = ReadonlyMap<string, readonly string[]>;

function linksOf(edges: readonly Edge[], reverse = false): Links {
  const links = new Map<string, string[]>();
  for (const { from, to } of edges) {
    const [key, value] = reverse ? [to, from] : [from, to];
    const known = links.get(key);
    if (known === undefined) links.set(key, [value]);
    else known.push(value);
  }
  return links;
}

/** Sets of connected nodes, in the order of their first node. */
function partsOf(ids: readonly string[], edges: readonly Edge[]): string[][] {
  const links = linksOf([...edges, ...edges.map(({ from, to, kind }) => ({ from: to, to: from, kind }))]);
  const seen = new Set<string>();
  const parts: string[][] = [];
  for (const start of ids) {
    if (seen.has(start)) continue;
    seen.add(start);
    const part = [start];
    // The loop visits nodes that it adds itself.
    for (const id of part)
      for (const next of links.get(id) ?? []) {
        if (seen.has(next)) continue;
        seen.add(next);
        part.push(next);
      }
    parts.push(part);
  }
  return parts;
}

/** Column of each node: owned objects are right of their owner, inputs directly left of what they serve. */
function columnsOf(ids: readonly string[], owned: Links, owners: Links, served: Links): ReadonlyMap<string, number> {
  const columns = new Map<string, number>();
  const descend = (id: string, column: number): void => {
    if (columns.has(id)) return;
    columns.set(id, column);
    for (const child of owned.get(id) ?? []) descend(child, column + 1);
  };
  for (const id of ids) if (!owners.has(id) && (owned.has(id) || !served.has(id))) descend(id, 0);
  const visiting = new Set<string>();
  const place = (id: string): number => {
    const known = columns.get(id);
    if (known !== undefined) return known;
    // A cycle of references has no leftmost node.
    if (visiting.has(id)) return 0;
    visiting.add(id);
    const column = Math.min(...(served.get(id) ?? []).map(place)) - 1;
    columns.set(id, column);
    return column;
  };
  ids.forEach(place);
  return columns;
}

/** Moves nodes of one column apart, as little as possible, and keeps their order. */
export function apart(wanted: readonly number[], distance: number): number[] {
  type Block = { sum: number; size: number };
  const blocks: Block[] = [];
  const start = ({ sum, size }: Block) => sum / size - ((size - 1) * distance) / 2;
  for (const at of wanted) {
    let block: Block = { sum: at, size: 1 };
    for (let last = blocks.at(-1); last !== undefined && start(last) + last.size * distance > start(block); last = blocks.at(-1)) {
      blocks.pop();
      block = { sum: last.sum + block.sum, size: last.size + block.size };
    }
    blocks.push(block);
  }
  return blocks.flatMap((block) => Array.from({ length: block.size }, (_, index) => start(block) + index * distance));
}

/** Rows of a part, from 0: trees of owners first, then their inputs at the mean of what they serve. */
function rowsOf(part: readonly string[], columns: ReadonlyMap<string, number>, owned: Links, owners: Links, served: Links): ReadonlyMap<string, number> {
  const rows = new Map<string, number>();
  let next = 0;
  const descend = (id: string): number => {
    rows.set(id, 0);
    const children = (owned.get(id) ?? []).filter((child) => !rows.has(child)).map(descend);
    const row = children.length === 0 ? next++ : ((children[0] ?? 0) + (children.at(-1) ?? 0)) / 2;
    rows.set(id, row);
    return row;
  };
  for (const id of part) if (!owners.has(id) && (owned.has(id) || !served.has(id))) descend(id);
  const inputs = new Map<number, string[]>();
  for (const id of part) {
    if (rows.has(id)) continue;
    const column = columns.get(id) ?? 0;
    inputs.set(column, [...(inputs.get(column) ?? []), id]);
  }
  for (const [, ids] of [...inputs].sort(([left], [right]) => right - left)) {
    const mean = (id: string): number => {
      const found = (served.get(id) ?? []).flatMap((target) => rows.get(target) ?? []);
      return found.length === 0 ? 0 : found.reduce((sum, row) => sum + row, 0) / found.length;
    };
    const sorted = ids.map((id) => [id, mean(id)] as const).sort(([, left], [, right]) => left - right);
    apart(sorted.map(([, row]) => row), 1).forEach((row, index) => rows.set(sorted[index]?.[0] ?? "", row));
  }
  return rows;
}

/** Positions all nodes. Nodes without edges are in a grid below the others. */
export function layOut({ vertices, edges }: Graph): Layout {
  const ids = vertices.map(({ id }) => id);
  const ownership = edges.filter(({ kind }) => kind === "OWNER");
  const [owned, owners, served] = [linksOf(ownership), linksOf(ownership, true), linksOf(edges.filter(({ kind }) => kind !== "OWNER"))];
  const parts = partsOf(ids, edges);
  const columns = columnsOf(ids, owned, owners, served);
  const places = new Map<string, Place>();
  let top = 0;
  for (const part of parts.filter(({ length }) => length > 1)) {
    const rows = rowsOf(part, columns, owned, owners, served);
    // A spread of thousands of values overflows the stack.
    const [first, last] = [part.reduce((least, id) => Math.min(least, rows.get(id) ?? 0), Infinity), part.reduce((most, id) => Math.max(most, rows.get(id) ?? 0), 0)];
    for (const id of part) places.set(id, { x: (columns.get(id) ?? 0) * COLUMN, y: top + ((rows.get(id) ?? 0) - first) * ROW });
    top += (last - first) * ROW + NODE.height + GAP;
  }
  const left = [...places.values()].reduce((least, { x }) => Math.min(least, x), 0);
  for (const [id, { x, y }] of places) places.set(id, { x: x - left, y });
  const lone = parts.filter(({ length }) => length === 1).flat();
  lone.forEach((id, index) => places.set(id, { x: (index % LONE_COLUMNS) * (NODE.width + 20), y: top + Math.floor(index / LONE_COLUMNS) * ROW }));
  const all = [...places.values()];
  const edge = (pick: (place: Place) => number) => all.reduce((most, place) => Math.max(most, pick(place)), 0);
  return { places, width: edge(({ x }) => x) + NODE.width, height: edge(({ y }) => y) + NODE.height };
}
