import { CircleHelp } from "lucide-react";
import { useEffect, useRef } from "react";
import { PAGES } from "./pages";
import { typing } from "./keys";
import "./keyhelp.css";

const GENERAL: readonly (readonly [string, string])[] = [
  ["Ctrl K", "command palette"],
  ["/", "search or filter this page"],
  ["j k", "next or previous row"],
  ["Enter", "open selected row"],
  ["x", "select row; with Shift up to the row"],
  ["a x", "first or second action of an item in Needs you"],
  ["z", "undo the change of the message on the screen"],
  ["Esc", "close or clear"],
  ["?", "this help"],
];

/** Keyboard shortcuts, opened with `?`. */
export function KeyHelp() {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    const onKey = (event: KeyboardEvent) => {
      if (event.key === "?" && !typing(event)) dialog.current?.showModal();
    };
    addEventListener("keydown", onKey);
    return () => removeEventListener("keydown", onKey);
  }, []);
  const jumps = PAGES.flatMap(({ nav }) => (nav === undefined ? [] : [[`g ${nav.key}`, nav.title] as const]));
  return (
    <>
      <button type="button" className="plain" onClick={() => dialog.current?.showModal()} title="Keyboard shortcuts">
        <CircleHelp size={15} aria-hidden="true" />
        <span className="hidden-text"> Keyboard shortcuts</span>
      </button>
      <dialog ref={dialog} className="keys" aria-labelledby="keys-title">
        <h2 id="keys-title">Keyboard shortcuts</h2>
        <dl>
          {[...jumps, ...GENERAL].map(([key, what]) => (
            <div key={key}>
              <dt>
                <kbd>{key}</kbd>
              </dt>
              <dd>{what}</dd>
            </div>
          ))}
        </dl>
        <form method="dialog">
          <button>Close</button>
        </form>
      </dialog>
    </>
  );
}
