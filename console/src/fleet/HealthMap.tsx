import { useEffect, useMemo, useRef, useState, type MouseEvent, type RefObject } from "react";
import { useThemeName } from "../app/theme";
import { counted } from "../text/counts";
import { exactly } from "../text/time";
import { hit, inSight, layOut, type FleetRow, type Hit, type Layout, type Slice } from "./layout";
import { stateOfLetter } from "./statusCodes";
import { paint, palette, type Palette } from "./paint";
import "./map.css";

type Props = {
  readonly rows: readonly FleetRow[];
  /** The size of a cell in pixels. */
  readonly cell: number;
  readonly isStale: (pingedAt: string | null) => boolean;
  readonly onOpen: (hit: Hit) => void;
  /** Name of the service at a cell; undefined: unknown. */
  readonly nameOf: (hit: Hit) => Promise<string | undefined>;
};

type Pointed = { readonly hit: Hit; readonly x: number; readonly y: number };

const PATIENCE = 120;

function useWidth() {
  const holder = useRef<HTMLDivElement>(null);
  const [width, setWidth] = useState(0);
  useEffect(() => {
    if (holder.current === null) return undefined;
    const observer = new ResizeObserver(([entry]) => setWidth(Math.floor(entry?.contentRect.width ?? 0)));
    observer.observe(holder.current);
    return () => observer.disconnect();
  }, []);
  return { holder, width };
}

type Settled = { readonly picture: string; readonly rows: readonly FleetRow[]; readonly stale: ReadonlySet<string> };

/**
 * Returns the same rows until a cell changes. Agents report all the time, and painting a hundred
 * thousand cells is expensive.
 */
function useSettled(rows: readonly FleetRow[], isStale: Props["isStale"]): Settled {
  const stale = new Set(rows.filter(({ pingedAt }) => isStale(pingedAt)).map(({ id }) => id));
  const picture = rows.map(({ id, handle, services }) => `${handle} ${services} ${stale.has(id) ? 1 : 0}`).join();
  const [kept, keep] = useState<Settled>({ picture, rows, stale });
  if (kept.picture === picture) return kept;
  const next = { picture, rows, stale };
  keep(next);
  return next;
}

/** Paints a slice of the map on a canvas of the same size. */
function show(canvas: HTMLCanvasElement, layout: Layout, colours: Palette, [top, bottom]: Slice, width: number, stale: ReadonlySet<string>): void {
  const context = canvas.getContext("2d");
  if (context === null) return;
  canvas.width = width * devicePixelRatio;
  canvas.height = (bottom - top) * devicePixelRatio;
  canvas.style.top = `${top}px`;
  canvas.style.height = `${bottom - top}px`;
  context.scale(devicePixelRatio, devicePixelRatio);
  paint(context, layout, colours, top, bottom, (row) => stale.has(row.id));
}

/** Paints only the visible part of the map. */
function usePainted(holder: RefObject<HTMLElement | null>, canvas: RefObject<HTMLCanvasElement | null>, layout: Layout, stale: ReadonlySet<string>, width: number): void {
  const theme = useThemeName();
  useEffect(() => {
    const frame = holder.current;
    if (frame === null || width === 0) return undefined;
    const colours = palette(frame);
    let painted = "";
    const repaint = () => {
      const slice = inSight(frame.getBoundingClientRect().top, innerHeight, layout.height);
      if (canvas.current === null || painted === slice.join()) return;
      painted = slice.join();
      show(canvas.current, layout, colours, slice, width, stale);
    };
    repaint();
    addEventListener("scroll", repaint, { passive: true });
    addEventListener("resize", repaint);
    return () => {
      removeEventListener("scroll", repaint);
      removeEventListener("resize", repaint);
    };
  }, [holder, canvas, layout, stale, width, theme]);
}

/** Map with one cell per service and one block per cluster. The lists next to it show the same as text. */
export function HealthMap({ rows, cell, isStale, onOpen, nameOf }: Props) {
  const { holder, width } = useWidth();
  const canvas = useRef<HTMLCanvasElement>(null);
  const [under, setUnder] = useState<Pointed | null>(null);
  const shown = useSettled(rows, isStale);
  const layout = useMemo(() => layOut(shown.rows, Math.max(width, 200), cell), [shown, width, cell]);
  usePainted(holder, canvas, layout, shown.stale, width);
  const pointed = (event: MouseEvent<HTMLElement>): Pointed | null => {
    const { left, top } = event.currentTarget.getBoundingClientRect();
    const [x, y] = [event.clientX - left, event.clientY - top];
    const found = hit(layout, x, y);
    return found === null ? null : { hit: found, x, y };
  };
  return (
    <div
      ref={holder}
      className="map"
      style={{ height: layout.height }}
      onMouseMove={(event) => setUnder(pointed(event))}
      onMouseLeave={() => setUnder(null)}
      onClick={(event) => {
        const found = pointed(event);
        if (found !== null) onOpen(found.hit);
      }}
    >
      <canvas ref={canvas} role="img" aria-label="Health of all services; the lists on this page show it as text" />
      {under !== null && <Tip key={`${under.hit.row.id} ${under.hit.index}`} pointed={under} width={width} nameOf={nameOf} />}
    </div>
  );
}

function Tip({ pointed, width, nameOf }: { readonly pointed: Pointed; readonly width: number; readonly nameOf: Props["nameOf"] }) {
  const { hit: at, x, y } = pointed;
  const [name, setName] = useState<string | undefined>();
  const { row, index } = at;
  useEffect(() => {
    const timer = setTimeout(() => void nameOf({ row, index }).then(setName, () => setName(undefined)), PATIENCE);
    return () => clearTimeout(timer);
  }, [nameOf, row, index]);
  return (
    <output className="map-tip" style={{ left: Math.max(0, Math.min(x + 12, width - 240)), top: y + 16 }}>
      <strong>{index === null ? row.handle : `${row.handle}/${name ?? "…"}`}</strong>
      {index === null ? counted(row.services.length, "service") : stateOfLetter(row.services.charAt(index)).label}
      <span className="quiet">{row.pingedAt === null ? "never connected" : `last seen ${exactly(row.pingedAt)}`}</span>
    </output>
  );
}
