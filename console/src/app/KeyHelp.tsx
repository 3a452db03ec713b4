import { useEffect, useRef } from "react";
import { PAGES } from "./pages";
import { typing } from "./keys";
import "./keyhelp.css";

const GENERAL: readonly (readonly [string, string])[] = [
  ["Ctrl K", "go anywhere by typing"],
  ["/", "search, or filter this page"],
  ["j k", "next, previous row"],
  ["Enter", "open it"],
  ["Esc", "close, clear"],
  ["?", "this help"],
];

/** The keys of the console, on `?`. */
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
      <button type="button" className="plain" onClick={() => dialog.current?.showModal()} title="Keys">
        ?<span className="hidden-text"> Keys</span>
      </button>
      <dialog ref={dialog} className="keys" aria-labelledby="keys-title">
        <h2 id="keys-title">Keys</h2>
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
