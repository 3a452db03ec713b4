import { Copy } from "lucide-react";
import { toast } from "./toast";

/** Button that copies a text. */
export function CopyButton({ text, title }: { readonly text: string; readonly title: string }) {
  return (
    <button type="button" onClick={() => void navigator.clipboard.writeText(text).then(() => toast("Copied"), () => toast("The browser does not allow copying here"))}>
      <Copy size={14} aria-hidden="true" /> {title}
    </button>
  );
}
