import { useState, type SubmitEvent } from "react";
import { useParam } from "../ui/useParam";
import { ServiceChanges } from "./ServiceChanges";
import type { Service } from "./service";

/** Changes that another branch, tag or commit would make; read-only. */
export function Preview({ service }: { readonly service: Service }) {
  const [ref, preview] = useParam("ref");
  const [text, setText] = useState(ref || (service.git?.ref ?? "main"));
  const submit = (event: SubmitEvent) => {
    event.preventDefault();
    preview(text.trim());
  };
  return (
    <div className="stack">
      <form className="bar" onSubmit={submit}>
        <label>
          Branch, tag or commit <input value={text} onChange={(event) => setText(event.target.value)} required maxLength={255} />
        </label>
        <button>Show changes</button>
      </form>
      {ref === "" ? (
        <p className="quiet">Renders the revision and compares it with the current manifests of {service.name}. Nothing is applied.</p>
      ) : (
        <ServiceChanges key={ref} serviceId={service.id} gitRef={ref} />
      )}
    </div>
  );
}
