import { useEffect, useRef } from "react";
import "./code.css";

type Props = {
  readonly text: string;
  readonly label: string;
  /** Without it, the text is read-only. */
  readonly onChange?: (text: string) => void;
};

/** YAML editor or viewer with highlighting and search; loaded on first use. */
export function Code({ text, label, onChange }: Props) {
  const host = useRef<HTMLDivElement>(null);
  const change = useRef(onChange);
  const view = useRef<{ readonly set: (text: string) => void; readonly end: () => void } | null>(null);
  const current = useRef(text);
  const isFixed = onChange === undefined;
  useEffect(() => {
    change.current = onChange;
    current.current = text;
    view.current?.set(text);
  }, [text, onChange]);
  useEffect(() => {
    let cancelled = false;
    void import("./editor").then(({ openEditor }) => {
      if (cancelled || host.current === null) return;
      view.current = openEditor(host.current, current.current, label, isFixed ? undefined : (next) => change.current?.(next));
    });
    return () => {
      cancelled = true;
      view.current?.end();
      view.current = null;
    };
  }, [label, isFixed]);
  return <div ref={host} className="code" />;
}

type DiffProps = { readonly before: string; readonly after: string; readonly label: string; readonly split?: boolean };

/** Diff of two texts, inline or side by side. */
export function Diff({ before, after, label, split = false }: DiffProps) {
  const host = useRef<HTMLDivElement>(null);
  useEffect(() => {
    let end = () => {};
    let cancelled = false;
    void import("./editor").then(({ openDiff, openSplitDiff }) => {
      if (!cancelled && host.current !== null) end = (split ? openSplitDiff : openDiff)(host.current, before, after, label).end;
    });
    return () => {
      cancelled = true;
      end();
    };
  }, [before, after, label, split]);
  return <div ref={host} className="code" />;
}
