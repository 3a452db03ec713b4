import { toast } from "./toast";
import "./secret.css";

/** Secret that is shown only once. */
export function Secret({ title, text }: { readonly title: string; readonly text: string }) {
  return (
    <section className="secret">
      <strong>{title}</strong>
      <pre className="block">{text}</pre>
      <p className="quiet">Copy it now; it cannot be viewed again.</p>
      <button type="button" onClick={() => void navigator.clipboard.writeText(text).then(() => toast("Copied to clipboard"))}>
        Copy to clipboard
      </button>
    </section>
  );
}
