import { useState, type SubmitEvent } from "react";
import { useParam } from "../ui/useParam";
import { ServiceChanges } from "./ServiceChanges";
import type { Service } from "./service";

/** What another branch, tag or commit would make of this service; nothing is changed by looking. */
export function WhatIf({ service }: { readonly service: Service }) {
  const [ref, look] = useParam("ref");
  const [text, setText] = useState(ref || (service.git?.ref ?? "main"));
  const submit = (event: SubmitEvent) => {
    event.preventDefault();
    look(text.trim());
  };
  return (
    <div className="stack">
      <form className="bar" onSubmit={submit}>
        <label>
          Branch, tag or commit <input value={text} onChange={(event) => setText(event.target.value)} required maxLength={255} />
        </label>
        <button>Show what it would change</button>
      </form>
      {ref === "" ? (
        <p className="quiet">It is rendered and compared with what {service.name} has now, object by object. Nothing is applied.</p>
      ) : (
        <ServiceChanges key={ref} serviceId={service.id} gitRef={ref} />
      )}
    </div>
  );
}
