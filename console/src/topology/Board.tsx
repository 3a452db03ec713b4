import { Maximize2, ZoomIn, ZoomOut } from "lucide-react";
import { useEffect, useRef, useState, type KeyboardEvent, type PointerEvent, type RefObject } from "react";
import { useThemeName } from "../app/theme";
import type { Graph } from "./graph";
import type { Layout } from "./layout";
import { NodeCard } from "./NodeCard";
import { LEGIBLE, paint, palette, type Palette } from "./paint";
import { fitted, isNear, nodeAt, withNode, zoomed, type Size, type View } from "./view";
import "./topology.css";

const STEP = 1.25;
const CLICK = 4;
// A graph that does not fit starts at this scale, so that its text is legible.
const FIRST_SCALE = 0.75;

function useSize(holder: RefObject<HTMLElement | null>): Size {
  const [size, setSize] = useState<Size>({ width: 0, height: 0 });
  useEffect(() => {
    if (holder.current === null) return undefined;
    const observer = new ResizeObserver(([entry]) => entry !== undefined && setSize({ width: entry.contentRect.width, height: entry.contentRect.height }));
    observer.observe(holder.current);
    return () => observer.disconnect();
  }, [holder]);
  return size;
}

type BoardProps = {
  /** What the nodes are. */
  readonly label: string;
  readonly graph: Graph;
  readonly layout: Layout;
  /** Nodes that match the filter; null: all. */
  readonly lit: ReadonlySet<string> | null;
  readonly selected: string;
  readonly onSelect: (id: string) => void;
  readonly onFold: (id: string) => void;
};

/** Node next to another one in a direction: along an edge, or in the same column. */
function neighbour({ graph, layout }: BoardProps, id: string, key: string): string | undefined {
  if (key === "ArrowRight") return graph.edges.find(({ from }) => from === id)?.to;
  if (key === "ArrowLeft") return graph.edges.find(({ to }) => to === id)?.from;
  const here = layout.places.get(id);
  if (here === undefined || (key !== "ArrowUp" && key !== "ArrowDown")) return undefined;
  const isUp = key === "ArrowUp";
  let found: string | undefined;
  let nearest = Infinity;
  for (const [other, { x, y }] of layout.places) {
    const distance = isUp ? here.y - y : y - here.y;
    if (x !== here.x || distance <= 0 || distance >= nearest) continue;
    nearest = distance;
    found = other;
  }
  return found;
}

/** Pans and zooms the graph. Only nodes near the window are elements; edges are on a canvas. */
export function Board(props: BoardProps) {
  const { label, graph, layout, lit, selected, onSelect, onFold } = props;
  const holder = useRef<HTMLDivElement>(null);
  const canvas = useRef<HTMLCanvasElement>(null);
  const nodes = useRef<HTMLDivElement>(null);
  const size = useSize(holder);
  const theme = useThemeName();
  const [chosen, setView] = useState<View | null>(null);
  const dragged = useRef<{ readonly view: View; readonly left: number; readonly top: number; readonly isMoved: boolean } | null>(null);
  const wanted = useRef("");
  const colours = useRef<{ readonly theme: string; readonly of: Palette } | null>(null);
  const view = chosen ?? fitted(layout, size, FIRST_SCALE);
  useEffect(() => {
    if (holder.current === null || canvas.current === null || size.width === 0) return;
    if (colours.current?.theme !== theme) colours.current = { theme, of: palette(holder.current) };
    paint(canvas.current, { graph, layout, lit, colours: colours.current.of }, view, size);
  }, [graph, layout, lit, theme, view, size]);
  useEffect(() => {
    const onWheel = (event: WheelEvent) => {
      if (!event.ctrlKey && !event.metaKey) return;
      event.preventDefault();
      const { left, top } = (event.currentTarget as HTMLElement).getBoundingClientRect();
      setView((now) => zoomed(now ?? view, Math.exp(-event.deltaY / 300), event.clientX - left, event.clientY - top));
    };
    const element = holder.current;
    element?.addEventListener("wheel", onWheel, { passive: false });
    return () => element?.removeEventListener("wheel", onWheel);
  }, [view]);
  useEffect(() => {
    if (wanted.current !== "") nodes.current?.querySelector<HTMLElement>(`[data-node="${CSS.escape(wanted.current)}"]`)?.focus({ preventScroll: true });
    wanted.current = "";
  });
  const scale = (factor: number) => setView(zoomed(view, factor, size.width / 2, size.height / 2));
  const focus = (id: string) => {
    const place = layout.places.get(id);
    if (place === undefined) return;
    wanted.current = id;
    // A copy, so that the focus moves also if the node is visible already.
    setView({ ...withNode(view, place, size) });
  };
  const onKey = (event: KeyboardEvent) => {
    const id = (event.target as HTMLElement).closest<HTMLElement>("[data-node]")?.dataset["node"];
    const next = id === undefined ? undefined : neighbour(props, id, event.key);
    if (next !== undefined) focus(next);
    else if (event.key === "+" || event.key === "=") scale(STEP);
    else if (event.key === "-") scale(1 / STEP);
    else if (event.key === "0") setView(fitted(layout, size));
    else if (event.key !== "ArrowUp" && event.key !== "ArrowDown") return;
    event.preventDefault();
  };
  const onDown = (event: PointerEvent<HTMLDivElement>) => {
    if (event.button !== 0 || (event.target as HTMLElement).closest("button") !== null) return;
    event.currentTarget.setPointerCapture(event.pointerId);
    dragged.current = { view, left: event.clientX, top: event.clientY, isMoved: false };
  };
  const onMove = (event: PointerEvent<HTMLDivElement>) => {
    const drag = dragged.current;
    if (drag === null) return;
    const [left, top] = [event.clientX - drag.left, event.clientY - drag.top];
    if (!drag.isMoved && Math.hypot(left, top) < CLICK) return;
    dragged.current = { ...drag, isMoved: true };
    setView({ ...drag.view, x: drag.view.x - left / drag.view.scale, y: drag.view.y - top / drag.view.scale });
  };
  const onUp = (event: PointerEvent<HTMLDivElement>) => {
    const drag = dragged.current;
    dragged.current = null;
    if (drag === null || drag.isMoved) return;
    const { left, top } = event.currentTarget.getBoundingClientRect();
    const hit = nodeAt(layout, view.x + (event.clientX - left) / view.scale, view.y + (event.clientY - top) / view.scale);
    if (hit !== undefined) onSelect(hit);
  };
  const near = view.scale < LEGIBLE ? [] : graph.vertices.filter(({ id }) => isNear(layout.places.get(id) ?? { x: 0, y: 0 }, view, size));
  return (
    <div className="topology-board" ref={holder} onKeyDown={onKey} onPointerDown={onDown} onPointerMove={onMove} onPointerUp={onUp} onPointerCancel={() => (dragged.current = null)}>
      <canvas ref={canvas} aria-hidden="true" />
      <div ref={nodes} className="topology-nodes" style={{ transform: `scale(${view.scale}) translate(${-view.x}px, ${-view.y}px)` }} role="group" aria-label={`${label}; arrow keys move along edges`}>
        {near.map((vertex) => (
          <NodeCard key={vertex.id} vertex={vertex} place={layout.places.get(vertex.id) ?? { x: 0, y: 0 }} isSelected={vertex.id === selected} isDim={lit !== null && !lit.has(vertex.id)} onSelect={onSelect} onFold={onFold} />
        ))}
      </div>
      <div className="topology-zoom">
        <button type="button" onClick={() => scale(STEP)} title="Zoom in (+)">
          <ZoomIn size={16} aria-hidden="true" />
          <span className="hidden-text">Zoom in</span>
        </button>
        <button type="button" onClick={() => scale(1 / STEP)} title="Zoom out (-)">
          <ZoomOut size={16} aria-hidden="true" />
          <span className="hidden-text">Zoom out</span>
        </button>
        <button type="button" onClick={() => setView(fitted(layout, size))} title="Fit (0)">
          <Maximize2 size={16} aria-hidden="true" />
          <span className="hidden-text">Fit</span>
        </button>
      </div>
    </div>
  );
}
