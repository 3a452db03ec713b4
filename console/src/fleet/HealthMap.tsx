import { useEffect, useMemo, useRef, useState, type MouseEvent } from "react";
import { hit, layOut, type FleetRow, type Hit } from "./layout";
import { paint, palette } from "./paint";
import "./map.css";

type Props = {
  readonly rows: readonly FleetRow[];
  readonly isStale: (pingedAt: string | null) => boolean;
  readonly onOpen: (hit: Hit) => void;
  readonly describe: (hit: Hit) => string;
};

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

/** One cell a service, one block a cluster. The list beside it says the same in words. */
export function HealthMap({ rows, isStale, onOpen, describe }: Props) {
  const { holder, width } = useWidth();
  const canvas = useRef<HTMLCanvasElement>(null);
  const [under, setUnder] = useState<{ readonly hit: Hit; readonly x: number; readonly y: number } | null>(null);
  const layout = useMemo(() => layOut(rows, Math.max(width, 200)), [rows, width]);
  useEffect(() => {
    const context = canvas.current?.getContext("2d");
    if (context == null || canvas.current === null || width === 0) return;
    const ratio = devicePixelRatio;
    canvas.current.width = width * ratio;
    canvas.current.height = layout.height * ratio;
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    paint(context, layout, palette(canvas.current), 0, layout.height, isStale);
  }, [layout, width, isStale]);
  const find = (event: MouseEvent) => hit(layout, event.nativeEvent.offsetX, event.nativeEvent.offsetY);
  return (
    <div ref={holder} className="map">
      <canvas
        ref={canvas}
        height={layout.height}
        role="img"
        aria-label="Health of all services; the list of what is wrong says it in words"
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
      {under !== null && (
        <output className="map-tip" style={{ left: Math.min(under.x + 12, width - 220), top: under.y + 14 }}>
          {describe(under.hit)}
        </output>
      )}
    </div>
  );
}
