import { toast } from "./toast";
import "./secret.css";

/** Something that is shown once only. */
export function Secret({ title, text }: { readonly title: string; readonly text: string }) {
  return (
    <section className="secret">
      <strong>{title}</strong>
      <pre className="block">{text}</pre>
      <p className="quiet">It is shown only now.</p>
      <button type="button" onClick={() => void navigator.clipboard.writeText(text).then(() => toast("Copied."))}>
        Copy
      </button>
    </section>
  );
}
