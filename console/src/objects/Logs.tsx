import { useVirtualizer } from "@tanstack/react-virtual";
import { useEffect, useMemo, useRef, useState } from "react";
import { counted } from "../text/counts";
import { plain } from "../text/escapes";
import type { Line } from "./lines";
import { useLogs } from "./useLogs";
import "./logs.css";

type PodRow = { readonly namespace: string | null; readonly name: string };
type Props = {
  readonly handle: string;
  readonly pods: readonly PodRow[];
  /** Total number of pods, if `pods` is only a part. */
  readonly of?: number;
  readonly container?: string;
};

const HUES = 8;

/** Maximum number of pods whose logs are read at the same time. */
export const MAX_PODS = 20;

function hueOf(pod: string): number {
  let sum = 0;
  for (const letter of pod) sum = (sum * 31 + letter.charCodeAt(0)) % 997;
  return sum % HUES;
}

function download(lines: readonly Line[]): void {
  const text = lines.map(({ at, pod, text: line }) => `${at} ${pod} ${line}\n`).join("");
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type: "text/plain" }));
  link.download = "logs.txt";
  link.click();
  URL.revokeObjectURL(link.href);
}

/** Logs of several pods in one list, with search, follow and download. */
export function Logs({ handle, pods, of = pods.length, container = "" }: Props) {
  const [text, setText] = useState("");
  const [follow, setFollow] = useState(true);
  const [previous, setPrevious] = useState(false);
  const chosen = useMemo(() => pods.map(({ namespace, name }) => ({ namespace: namespace ?? "", name })), [pods]);
  const { lines, problems, open } = useLogs(handle, chosen, { container, follow: !previous, tail: 2000, previous });
  const shown = useMemo(() => {
    const needle = text.toLowerCase();
    return needle === "" ? lines : lines.filter((line) => line.text.toLowerCase().includes(needle));
  }, [lines, text]);
  if (pods.length === 0) return <p className="quiet">No pods.</p>;
  return (
    <div className="logs">
      <div className="bar">
        <input type="search" aria-label="Search in logs" placeholder="Search in logs" value={text} onChange={(event) => setText(event.target.value)} />
        <label className="check">
          <input type="checkbox" checked={follow} onChange={(event) => setFollow(event.target.checked)} /> Follow
        </label>
        <label className="check">
          <input type="checkbox" checked={previous} onChange={(event) => setPrevious(event.target.checked)} /> Previous container
        </label>
        <span className="quiet" role="status">
          {counted(shown.length, "line")} of {pods.length} {of > pods.length && `of ${of.toLocaleString()} `}
          {of === 1 ? "pod" : "pods"}
          {open > 0 ? ", streaming" : ", ended"}
        </span>
        <span className="fill" />
        <button type="button" disabled={shown.length === 0} onClick={() => download(shown)}>
          Download
        </button>
      </div>
      {problems.map((problem) => (
        <p key={problem} className="status bad">
          {plain(problem)}
        </p>
      ))}
      <List lines={shown} follow={follow} many={pods.length > 1 || lines[0]?.pod !== pods[0]?.name} />
    </div>
  );
}

function List({ lines, follow, many }: { readonly lines: readonly Line[]; readonly follow: boolean; readonly many: boolean }) {
  const holder = useRef<HTMLDivElement>(null);
  const rows = useVirtualizer({ count: lines.length, getScrollElement: () => holder.current, estimateSize: () => 18, overscan: 30 });
  useEffect(() => {
    if (follow && lines.length > 0) rows.scrollToIndex(lines.length - 1);
  }, [lines, follow, rows]);
  return (
    <div ref={holder} className="log-lines" tabIndex={0} role="region" aria-label="Log lines">
      <div style={{ height: rows.getTotalSize() }}>
        {rows.getVirtualItems().map(({ index, start }) => {
          const line = lines[index];
          return line === undefined ? null : (
            <div key={index} ref={rows.measureElement} data-index={index} className="log-line" style={{ transform: `translateY(${start}px)` }}>
              <time>{line.at.slice(11, 23)}</time>
              {many && <span className={`pod hue-${hueOf(line.pod)}`}>{line.pod}</span>}
              <span className="text">{line.text}</span>
            </div>
          );
        })}
      </div>
    </div>
  );
}
