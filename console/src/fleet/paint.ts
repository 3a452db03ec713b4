// Draws the health map. Only here do colours of the theme become numbers for a canvas.
import { LABEL, type FleetRow, type Layout } from "./layout";

export type Palette = { readonly ink: string; readonly quiet: string; readonly warn: string; readonly cells: Readonly<Record<string, string>> };

// About the width of a letter of the labels, in pixels.
const LETTER = 6.2;
const VARIABLES: Record<string, string> = { H: "--ok", S: "--busy", P: "--busy", F: "--bad", Z: "--idle", A: "--warn" };

/** The colours of the theme that is on now. */
export function palette(element: Element): Palette {
  const style = getComputedStyle(element);
  const read = (name: string) => style.getPropertyValue(name);
  const cells = Object.fromEntries(Object.entries(VARIABLES).map(([letter, name]) => [letter, resolve(element, read(name))]));
  return { ink: resolve(element, read("--ink")), quiet: resolve(element, read("--quiet")), warn: resolve(element, read("--warn-text")), cells };
}

/** `light-dark()` and friends as a plain colour: the canvas does not know them. */
function resolve(element: Element, colour: string): string {
  const probe = document.createElement("span");
  probe.style.color = colour;
  element.append(probe);
  const plain = getComputedStyle(probe).color;
  probe.remove();
  return plain;
}

/** A label cut to a width in pixels: squeezed letters cannot be read. */
export function fitted(label: string, width: number): string {
  const most = Math.floor(width / LETTER);
  return label.length <= most ? label : `${label.slice(0, Math.max(1, most - 1))}…`;
}

/** Paint all that lies between two heights of the map. */
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
      // A colour is a text that the canvas has to read each time: mostly the last one still holds.
      if (letter !== last) context.fillStyle = colours.cells[letter] ?? colours.quiet;
      last = letter;
      context.fillRect(x + (index % columns) * cell, y - top + LABEL + Math.floor(index / columns) * cell, inner, inner);
    }
  }
  context.globalAlpha = 1;
}
