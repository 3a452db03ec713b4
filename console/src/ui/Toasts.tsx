import { useToasts } from "./toast";
import "./toasts.css";

/** What was just done, for some seconds. The page and the audit trail keep it: this is no record. */
export function Toasts() {
  const toasts = useToasts();
  return (
    <div className="toasts" role="status" aria-live="polite">
      {toasts.map(({ id, text }) => (
        <p key={id}>{text}</p>
      ))}
    </div>
  );
}
