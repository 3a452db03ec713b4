import { useEffect } from "react";
import { useClient } from "urql";
import { refresh } from "../api/client";
import { typing } from "../app/keys";
import { dismiss, hold, toast, useToasts, type Toast } from "./toast";
import "./toasts.css";

/** Short-lived messages about completed actions. Some have a button, or the key `z`, that undoes the action. */
export function Toasts() {
  const toasts = useToasts();
  const client = useClient();
  const newest = toasts.findLast(({ undo }) => undo !== null);
  const run = async ({ id, text, undo }: Toast) => {
    // The pointer and the focus leave with the button.
    hold(false);
    dismiss(id);
    const { error } = (await undo?.(client)) ?? {};
    refresh();
    toast(error === undefined ? `Undone: ${text}` : `Not undone: ${error.message.replace(/^\[GraphQL\] /, "")}`);
  };
  useEffect(() => {
    const onKey = (event: KeyboardEvent) => {
      if (event.key === "z" && newest !== undefined && !typing(event)) void run(newest);
    };
    addEventListener("keydown", onKey);
    return () => removeEventListener("keydown", onKey);
  });
  return (
    <div className="toasts" role="status" aria-live="polite" onMouseEnter={() => hold(true)} onMouseLeave={() => hold(false)} onFocus={() => hold(true)} onBlur={() => hold(false)}>
      {toasts.map((message) => (
        <p key={message.id}>
          {message.text}
          {message.undo !== null && (
            <button type="button" onClick={() => void run(message)} aria-keyshortcuts="z">
              Undo {message === newest && <kbd aria-hidden="true">z</kbd>}
            </button>
          )}
        </p>
      ))}
    </div>
  );
}
