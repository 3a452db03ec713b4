import { Suspense, useEffect, useRef, type KeyboardEvent, type ReactNode } from "react";
import { Skeleton } from "./Skeleton";
import { useParam } from "./useParam";
import "./tabs.css";

export type Tab = { readonly id: string; readonly title: string; readonly content: () => ReactNode };

/** Width in pixels of the tabs before the selected one that stay visible. */
const BEFORE = 90;

/** Tabs; the URL keeps the selected one. */
export function Tabs({ tabs }: { readonly tabs: readonly [Tab, ...Tab[]] }) {
  const [selected, select] = useParam("tab");
  const shown = tabs.find(({ id }) => id === selected) ?? tabs[0];
  const bar = useRef<HTMLDivElement>(null);
  // On a phone, the bar is wider than the window.
  useEffect(() => {
    const tab = document.getElementById(`tab-${shown.id}`);
    if (bar.current !== null && tab !== null) bar.current.scrollLeft = tab.offsetLeft - bar.current.offsetLeft - BEFORE;
  }, [shown.id]);
  const onKey = (event: KeyboardEvent) => {
    const step = event.key === "ArrowRight" ? 1 : event.key === "ArrowLeft" ? -1 : 0;
    const next = tabs[(tabs.indexOf(shown) + step + tabs.length) % tabs.length];
    if (step === 0 || next === undefined) return;
    select(next.id);
    document.getElementById(`tab-${next.id}`)?.focus();
  };
  return (
    <>
      <div ref={bar} role="tablist" className="tabs" onKeyDown={onKey}>
        {tabs.map(({ id, title }) => (
          <button
            key={id}
            id={`tab-${id}`}
            type="button"
            role="tab"
            aria-selected={id === shown.id}
            aria-controls="tab-panel"
            tabIndex={id === shown.id ? 0 : -1}
            onClick={() => select(id)}
          >
            {title}
          </button>
        ))}
      </div>
      <div role="tabpanel" id="tab-panel" aria-labelledby={`tab-${shown.id}`} tabIndex={0}>
        <Suspense fallback={<Skeleton lines={6} />}>{shown.content()}</Suspense>
      </div>
    </>
  );
}
