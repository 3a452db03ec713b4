// Paints the health map; resolves the colours of the theme for the canvas.
import { colourOf } from "../ui/colours";
import { STATUS_CODES } from "./statusCodes";
import { LABEL, type FleetRow, type Layout } from "./layout";

export type Palette = { readonly ink: string; readonly quiet: string; readonly warn: string; readonly cells: Readonly<Record<string, string>> };

// Approximate width of a letter in labels, in pixels.
const LETTER = 6.2;

/** Colours of the active theme. */
export function palette(element: Element): Palette {
  const cells = Object.fromEntries(STATUS_CODES.map(({ letter, state }) => [letter, colourOf(element, `--${state.tone}`)]));
  return { ink: colourOf(element, "--ink"), quiet: colourOf(element, "--quiet"), warn: colourOf(element, "--warn-text"), cells };
}

/** Cuts a label to a width in pixels, because squeezed letters are unreadable. */
export function fitted(label: string, width: number): string {
  const max = Math.floor(width / LETTER);
  return label.length <= max ? label : `${label.slice(0, Math.max(1, max - 1))}…`;
}

/** Paints the blocks between two heights of the map. */
export function paint(context: CanvasRenderingContext2D, layout: Layout, colours: Palette, top: number, bottom: number, isStale: (row: FleetRow) => boolean): void {
  const { cell } = layout;
  const inner = cell > 5 ? cell - 2 : cell - 1;
  context.font = "11px system-ui, sans-serif";
  context.textBaseline = "top";
  for (const { row, x, y, columns, height } of layout.blocks) {
    if (y + height < top || y > bottom) continue;
    const stale = isStale(row);
    context.globalAlpha = 1;
    context.fillStyle = stale ? colours.warn : colours.quiet;
    context.fillText(fitted(`${stale ? "◷ " : ""}${row.handle}`, columns * cell), x, y - top, columns * cell);
    context.globalAlpha = stale ? 0.4 : 1;
    let last = "";
    for (let index = 0; index < row.services.length; index += 1) {
      const letter = row.services.charAt(index);
      // Setting a colour makes the canvas parse it, so set it only when it changes.
      if (letter !== last) context.fillStyle = colours.cells[letter] ?? colours.quiet;
      last = letter;
      context.fillRect(x + (index % columns) * cell, y - top + LABEL + Math.floor(index / columns) * cell, inner, inner);
    }
  }
  context.globalAlpha = 1;
}
