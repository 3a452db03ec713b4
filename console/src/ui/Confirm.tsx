import { useEffect, useId, useRef, useState, type ReactNode } from "react";
import "./confirm.css";

type Props = {
  readonly title: string;
  readonly action: string;
  readonly children: ReactNode;
  /** Text that the user must type first; for actions that cannot be undone. */
  readonly typed?: string;
  /** Nothing can be confirmed any more; `children` say why. */
  readonly disabled?: boolean;
  readonly onConfirm: () => void;
  readonly onCancel: () => void;
};

/** Confirmation dialog. */
export function Confirm({ title, action, children, typed, disabled = false, onConfirm, onCancel }: Props) {
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
          Type <code>{typed}</code> to confirm
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
          disabled={disabled || (typed !== undefined && text !== typed)}
          onClick={onConfirm}
        >
          {action}
        </button>
      </div>
    </dialog>
  );
}
