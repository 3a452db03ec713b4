import type { ReactNode } from "react";
import type { CombinedError } from "urql";
import { Problem } from "./Problem";
import "./formbar.css";

type Props = {
  readonly action: string;
  readonly busy: boolean;
  /** Validation errors, one sentence each; they disable the button. */
  readonly complaints?: readonly string[];
  /** False before the first input: missing fields are hints, not errors. */
  readonly isTouched?: boolean;
  readonly error?: CombinedError | undefined;
  readonly onCancel?: (() => void) | undefined;
  /** Without it, the button submits its form. */
  readonly onAction?: () => void;
  readonly children?: ReactNode;
};

/** Footer of a form: validation errors, server error, submit and cancel. */
export function FormBar({ action, busy, complaints = [], isTouched = true, error, onCancel, onAction, children }: Props) {
  return (
    <footer className="form-bar">
      <ul className={isTouched ? "complaints" : "complaints quiet"} aria-live="polite">
        {complaints.map((complaint) => (
          <li key={complaint}>
            {isTouched ? "✕" : "○"} {complaint}
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
