// Paints edges, and nodes that are too small for text, on a canvas.
import { colourOf } from "../ui/colours";
import type { Tone } from "../ui/states";
import type { EdgeKind, Graph } from "./graph";
import { NODE, type Layout } from "./layout";
import type { Size, View } from "./view";

export type Palette = { readonly line: string; readonly surface: string; readonly edges: Readonly<Record<EdgeKind, string>>; readonly tones: Readonly<Record<Tone, string>> };

const DASHES: Readonly<Record<EdgeKind, readonly number[]>> = { OWNER: [], NETWORK: [], CONFIGURATION: [5, 4], CONTROL: [2, 3], PERMISSION: [8, 3, 2, 3] };

/** Below this scale nodes have no text. */
export const LEGIBLE = 0.45;

/** Colours of the active theme. */
export function palette(element: Element): Palette {
  const of = (name: string) => colourOf(element, name);
  return {
    line: of("--line"),
    surface: of("--surface"),
    edges: { OWNER: of("--quiet"), NETWORK: of("--busy"), CONFIGURATION: of("--ok"), CONTROL: of("--warn"), PERMISSION: of("--idle") },
    tones: { ok: of("--ok"), busy: of("--busy"), warn: of("--warn"), bad: of("--bad"), idle: of("--idle") },
  };
}

type Picture = { readonly graph: Graph; readonly layout: Layout; readonly lit: ReadonlySet<string> | null; readonly colours: Palette };

function paintEdges(context: CanvasRenderingContext2D, { graph, layout, lit, colours }: Picture, kind: EdgeKind, isLit: boolean): void {
  context.beginPath();
  for (const { from, to, kind: own } of graph.edges) {
    const [start, end] = [layout.places.get(from), layout.places.get(to)];
    if (own !== kind || start === undefined || end === undefined) continue;
    if ((lit === null || (lit.has(from) && lit.has(to))) !== isLit) continue;
    const [left, right] = [start.x + NODE.width, end.x];
    const [top, bottom] = [start.y + NODE.height / 2, end.y + NODE.height / 2];
    const bend = Math.max(24, (right - left) / 2);
    context.moveTo(left, top);
    context.bezierCurveTo(left + bend, top, right - bend, bottom, right, bottom);
  }
  context.globalAlpha = isLit ? 0.85 : 0.15;
  context.strokeStyle = colours.edges[kind];
  context.setLineDash([...DASHES[kind]]);
  context.stroke();
}

function paintNodes(context: CanvasRenderingContext2D, { graph, layout, lit, colours }: Picture): void {
  for (const { id, state } of graph.vertices) {
    const place = layout.places.get(id);
    if (place === undefined) continue;
    context.globalAlpha = lit === null || lit.has(id) ? 1 : 0.2;
    context.fillStyle = colours.tones[state.tone];
    context.fillRect(place.x, place.y, NODE.width, NODE.height);
  }
}

/** Paints the visible part of a topology. */
export function paint(canvas: HTMLCanvasElement, picture: Picture, view: View, size: Size): void {
  const context = canvas.getContext("2d");
  if (context === null) return;
  const [width, height] = [Math.round(size.width * devicePixelRatio), Math.round(size.height * devicePixelRatio)];
  if (canvas.width !== width) canvas.width = width;
  if (canvas.height !== height) canvas.height = height;
  const scale = view.scale * devicePixelRatio;
  context.setTransform(1, 0, 0, 1, 0, 0);
  context.clearRect(0, 0, width, height);
  context.setTransform(scale, 0, 0, scale, -view.x * scale, -view.y * scale);
  context.lineWidth = Math.max(1.4, 0.7 / view.scale);
  for (const isLit of [false, true]) for (const kind of Object.keys(DASHES) as EdgeKind[]) paintEdges(context, picture, kind, isLit);
  if (view.scale < LEGIBLE) paintNodes(context, picture);
  context.globalAlpha = 1;
}
