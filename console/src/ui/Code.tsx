import { useEffect, useRef } from "react";
import "./code.css";

type Props = {
  readonly text: string;
  readonly label: string;
  /** Without it, the text can only be read. */
  readonly onChange?: (text: string) => void;
};

/** YAML with colours, searched by Ctrl-F, of any length; the editor is loaded when it is first needed. */
export function Code({ text, label, onChange }: Props) {
  const host = useRef<HTMLDivElement>(null);
  const change = useRef(onChange);
  const view = useRef<{ readonly set: (text: string) => void; readonly end: () => void } | null>(null);
  const wanted = useRef(text);
  const isFixed = onChange === undefined;
  useEffect(() => {
    change.current = onChange;
    wanted.current = text;
    view.current?.set(text);
  }, [text, onChange]);
  useEffect(() => {
    let gone = false;
    void import("./editor").then(({ openEditor }) => {
      if (gone || host.current === null) return;
      view.current = openEditor(host.current, wanted.current, label, isFixed ? undefined : (next) => change.current?.(next));
    });
    return () => {
      gone = true;
      view.current?.end();
      view.current = null;
    };
  }, [label, isFixed]);
  return <div ref={host} className="code" />;
}

type DiffProps = { readonly before: string; readonly after: string; readonly label: string };

/** Two texts as one, with what was taken away and what was added. */
export function Diff({ before, after, label }: DiffProps) {
  const host = useRef<HTMLDivElement>(null);
  useEffect(() => {
    let end = () => {};
    let gone = false;
    void import("./editor").then(({ openDiff }) => {
      if (!gone && host.current !== null) end = openDiff(host.current, before, after, label).end;
    });
    return () => {
      gone = true;
      end();
    };
  }, [before, after, label]);
  return <div ref={host} className="code" />;
}
