import { toast } from "../ui/toast";

/** Equivalent command, with a button that copies it. */
export function Command({ text }: { readonly text: string }) {
  return (
    <details className="command">
      <summary>Command</summary>
      <pre className="block">{text}</pre>
      <button type="button" onClick={() => void navigator.clipboard.writeText(text).then(() => toast("Command copied"))}>
        Copy command
      </button>
    </details>
  );
}
