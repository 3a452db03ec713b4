import { useEffect, useId, useRef, useState, type ReactNode } from "react";
import "./confirm.css";

type Props = {
  readonly title: string;
  readonly action: string;
  readonly children: ReactNode;
  /** What must be typed first: for what cannot be undone. */
  readonly typed?: string;
  readonly onConfirm: () => void;
  readonly onCancel: () => void;
};

/** Asks before something is done, in proportion to how hard it is to undo. */
export function Confirm({ title, action, children, typed, onConfirm, onCancel }: Props) {
  const dialog = useRef<HTMLDialogElement>(null);
  const heading = useId();
  const [text, setText] = useState("");
  useEffect(() => dialog.current?.showModal(), []);
  return (
    <dialog ref={dialog} className="confirm" aria-labelledby={heading} onClose={onCancel}>
      <h2 id={heading}>{title}</h2>
      {children}
      {typed !== undefined && (
        <label>
          Type <code>{typed}</code> to go on
          <input value={text} onChange={(event) => setText(event.target.value)} autoComplete="off" />
        </label>
      )}
      <div className="bar">
        <span className="fill" />
        <button type="button" onClick={onCancel}>
          Cancel
        </button>
        <button
          type="button"
          className={typed === undefined ? "primary" : "danger"}
          disabled={typed !== undefined && text !== typed}
          onClick={onConfirm}
        >
          {action}
        </button>
      </div>
    </dialog>
  );
}
