// Layout of the map: pure functions from sizes to positions.

/** One cluster; each letter of `services` is one service, by name. */
export type FleetRow = {
  readonly id: string;
  readonly handle: string;
  readonly pingedAt: string | null;
  readonly services: string;
};

export type Block = { readonly row: FleetRow; readonly x: number; readonly y: number; readonly columns: number; readonly height: number };
export type Layout = { readonly blocks: readonly Block[]; readonly height: number; readonly cell: number };

export const LABEL = 16;
const GAP = 10;
const MIN_BLOCK_WIDTH = 84;
// The painted slice follows the window in steps of this many pixels.
const STEP = 300;

/** Cell size in pixels: 24 for a small fleet, down to 4 for tens of thousands of services. */
export function cellSize(services: number): number {
  if (services <= 60) return 24;
  if (services <= 500) return 14;
  if (services <= 5_000) return 10;
  return services <= 25_000 ? 7 : 4;
}

/** Number of services in all rows. */
export const countOf = (rows: readonly FleetRow[]): number => rows.reduce((sum, { services }) => sum + services.length, 0);

/** Blocks of cells, one per cluster, in lines of the given width. All parts of a fleet share a cell size. */
export function layOut(rows: readonly FleetRow[], width: number, cell = cellSize(countOf(rows))): Layout {
  const blocks: Block[] = [];
  let x = 0;
  let y = 0;
  let tallest = 0;
  for (const row of rows) {
    const columns = Math.max(Math.ceil(MIN_BLOCK_WIDTH / cell), Math.ceil(Math.sqrt(row.services.length * 2.5)));
    const height = LABEL + Math.max(1, Math.ceil(row.services.length / columns)) * cell;
    const wide = columns * cell;
    if (x > 0 && x + wide > width) {
      x = 0;
      y += tallest + GAP;
      tallest = 0;
    }
    blocks.push({ row, x, y, columns, height });
    x += wide + GAP;
    tallest = Math.max(tallest, height);
  }
  return { blocks, height: y + tallest, cell };
}

/** Begin and end, in pixels from the top of the map. */
export type Slice = readonly [number, number];

/** Visible slice of a map plus a margin; `top` is the map's offset in a window of height `window`. */
export function inSight(top: number, window: number, height: number): Slice {
  const within = (steps: number) => Math.min(height, Math.max(0, steps * STEP));
  return [within(Math.floor(-top / STEP) - 1), within(Math.ceil((window - top) / STEP) + 1)];
}

export type Hit = { readonly row: FleetRow; readonly index: number | null };

/** Cluster at a point, with the index of the service; null: nothing there. */
export function hit(layout: Layout, x: number, y: number): Hit | null {
  const block = layout.blocks.find(
    ({ x: left, y: top, columns, height }) => x >= left && x < left + columns * layout.cell && y >= top && y < top + height,
  );
  if (block === undefined) return null;
  const line = Math.floor((y - block.y - LABEL) / layout.cell);
  const index = line * block.columns + Math.floor((x - block.x) / layout.cell);
  return { row: block.row, index: line >= 0 && index < block.row.services.length ? index : null };
}
