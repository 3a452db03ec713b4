import { useState } from "react";
import { useMutation } from "urql";
import { ConfirmDeletionsDocument } from "../api/generated";
import { Confirm } from "../ui/Confirm";
import { Problem } from "../ui/Problem";
import { toast } from "../ui/toast";
import type { Service } from "./service";

/** Deletions beyond the budget: they wait until somebody says yes to exactly these. */
export function Awaiting({ service }: { readonly service: Service }) {
  const [asking, ask] = useState(false);
  const [{ error }, confirm] = useMutation(ConfirmDeletionsDocument);
  if (service.awaiting.length === 0) return null;
  const names = service.awaiting.map(({ kind, namespace, name }) => `${kind} ${namespace === null ? "" : `${namespace}/`}${name}`);
  const go = async () => {
    const objects = service.awaiting.map(({ kind, name, group, namespace }) => ({ kind, name, group, namespace }));
    const result = await confirm({ id: service.id, objects });
    ask(false);
    if (result.error === undefined) toast(`${names.length} objects will be deleted.`);
  };
  return (
    <section className="awaiting">
      <strong>{names.length} deletions wait for a person</strong>
      <ul>
        {names.slice(0, 20).map((name) => (
          <li key={name}>{name}</li>
        ))}
      </ul>
      {error !== undefined && <Problem error={error} />}
      <button type="button" className="danger" onClick={() => ask(true)}>
        Let them be deleted…
      </button>
      {asking && (
        <Confirm title={`Delete ${names.length} objects of ${service.name}?`} action="Delete them" typed={service.name} onConfirm={() => void go()} onCancel={() => ask(false)}>
          <p>{names.join(", ")}</p>
        </Confirm>
      )}
    </section>
  );
}
