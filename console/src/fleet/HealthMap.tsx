import { useEffect, useMemo, useRef, useState, type MouseEvent } from "react";
import { useThemeName } from "../app/theme";
import { exactly } from "../text/time";
import { hit, layOut, type FleetRow, type Hit } from "./layout";
import { wordOf } from "./marks";
import { paint, palette } from "./paint";
import "./map.css";

type Props = {
  readonly rows: readonly FleetRow[];
  readonly isStale: (pingedAt: string | null) => boolean;
  readonly onOpen: (hit: Hit) => void;
  /** The name of the service at a cell; undefined: it is not known. */
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
 * The rows as long as they look the same: agents are heard of all the time, and a hundred thousand
 * cells are painted again only when one of them changed.
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

/** One cell a service, one block a cluster. The lists beside it say the same in words. */
export function HealthMap({ rows, isStale, onOpen, nameOf }: Props) {
  const { holder, width } = useWidth();
  const theme = useThemeName();
  const canvas = useRef<HTMLCanvasElement>(null);
  const [under, setUnder] = useState<Pointed | null>(null);
  const shown = useSettled(rows, isStale);
  const layout = useMemo(() => layOut(shown.rows, Math.max(width, 200)), [shown, width]);
  useEffect(() => {
    const context = canvas.current?.getContext("2d");
    if (context == null || canvas.current === null || width === 0) return;
    const ratio = devicePixelRatio;
    canvas.current.width = width * ratio;
    canvas.current.height = layout.height * ratio;
    canvas.current.style.height = `${layout.height}px`;
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    paint(context, layout, palette(holder.current ?? canvas.current), 0, layout.height, (row) => shown.stale.has(row.id));
  }, [layout, width, shown, theme, holder]);
  const find = (event: MouseEvent) => hit(layout, event.nativeEvent.offsetX, event.nativeEvent.offsetY);
  return (
    <div ref={holder} className="map">
      <canvas
        ref={canvas}
        role="img"
        aria-label="Health of all services; the lists beside it say it in words"
        onMouseMove={(event) => {
          const found = find(event);
          setUnder(found === null ? null : { hit: found, x: event.nativeEvent.offsetX, y: event.nativeEvent.offsetY });
        }}
        onMouseLeave={() => setUnder(null)}
        onClick={(event) => {
          const found = find(event);
          if (found !== null) onOpen(found);
        }}
      />
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
      {index === null ? `${row.services.length} services` : wordOf(row.services.charAt(index))}
      <span className="quiet">{row.pingedAt === null ? "never heard of" : `heard ${exactly(row.pingedAt)}`}</span>
    </output>
  );
}
