import type { ReactNode } from "react";
import type { CombinedError } from "urql";
import { Problem } from "./Problem";
import "./formbar.css";

type Props = {
  readonly action: string;
  readonly busy: boolean;
  /** What is still wrong, each in a sentence; nothing is sent while there is something. */
  readonly complaints?: readonly string[];
  /** Not yet: what is still wrong is only what there is to do. */
  readonly isBegun?: boolean;
  readonly error?: CombinedError | undefined;
  readonly onCancel?: (() => void) | undefined;
  /** Without it, the button sends the form that it stands in. */
  readonly onAction?: () => void;
  readonly children?: ReactNode;
};

/** The foot of every form: what hinders it, what the server said to it, do it, leave it. */
export function FormBar({ action, busy, complaints = [], isBegun = true, error, onCancel, onAction, children }: Props) {
  return (
    <footer className="form-bar">
      <ul className={isBegun ? "complaints" : "complaints quiet"} aria-live="polite">
        {complaints.map((one) => (
          <li key={one}>
            {isBegun ? "✕" : "○"} {one}
          </li>
        ))}
      </ul>
      {error !== undefined && <Problem error={error} />}
      <div className="bar">
        <button type={onAction === undefined ? "submit" : "button"} className="primary" disabled={busy || complaints.length > 0} onClick={onAction}>
          {action}
        </button>
        {onCancel !== undefined && (
          <button type="button" onClick={onCancel}>
            Cancel
          </button>
        )}
        {children}
      </div>
    </footer>
  );
}
