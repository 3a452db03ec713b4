// Part of a layout that is visible: offset and scale of the canvas.
import { NODE, type Layout, type Place } from "./layout";

/** The point (x, y) of the layout is at the top left corner; `scale` pixels of the screen are one of the layout. */
export type View = { readonly x: number; readonly y: number; readonly scale: number };
export type Size = { readonly width: number; readonly height: number };

export const MIN_SCALE = 0.06;
export const MAX_SCALE = 1.6;
const MARGIN = 20;

const clamp = (value: number, least: number, most: number) => Math.min(most, Math.max(least, value));

/** View that shows the whole layout, or its top at a legible scale if it is much larger than the window. */
export function fitted({ width, height }: Layout, size: Size, least = MIN_SCALE): View {
  const scale = clamp(Math.min((size.width - 2 * MARGIN) / Math.max(width, 1), (size.height - 2 * MARGIN) / Math.max(height, 1)), least, 1);
  const offset = (content: number, window: number) => (content * scale < window - 2 * MARGIN ? (content - window / scale) / 2 : -MARGIN / scale);
  return { x: offset(width, size.width), y: offset(height, size.height), scale };
}

/** Changes the scale and keeps the point at (left, top) of the window. */
export function zoomed(view: View, factor: number, left: number, top: number): View {
  const scale = clamp(view.scale * factor, MIN_SCALE, MAX_SCALE);
  return { scale, x: view.x + left / view.scale - left / scale, y: view.y + top / view.scale - top / scale };
}

/** View with a node inside the window; the same one if it is visible already. */
export function withNode(view: View, { x, y }: Place, size: Size): View {
  const [width, height] = [size.width / view.scale, size.height / view.scale];
  const isVisible = x >= view.x && x + NODE.width <= view.x + width && y >= view.y && y + NODE.height <= view.y + height;
  return isVisible ? view : { ...view, x: x + NODE.width / 2 - width / 2, y: y + NODE.height / 2 - height / 2 };
}

/** Whether a node is inside the window, with a margin so that panning shows no gap. */
export function isNear({ x, y }: Place, view: View, size: Size): boolean {
  const [width, height] = [size.width / view.scale, size.height / view.scale];
  return x + NODE.width > view.x - width / 2 && x < view.x + width * 1.5 && y + NODE.height > view.y - height / 2 && y < view.y + height * 1.5;
}

/** Node at a point of the layout. */
export function nodeAt({ places }: Layout, x: number, y: number): string | undefined {
  for (const [id, place] of places) if (x >= place.x && x <= place.x + NODE.width && y >= place.y && y <= place.y + NODE.height) return id;
  return undefined;
}
