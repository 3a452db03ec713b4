import { useState } from "react";
import { useMutation } from "urql";
import { ConfirmDeletionsDocument } from "../api/generated";
import { counted } from "../text/counts";
import { Confirm } from "../ui/Confirm";
import { Problem } from "../ui/Problem";
import { toast } from "../ui/toast";
import type { Service } from "./service";

type Awaiting = Pick<Service, "id" | "name" | "awaiting">;

const namesOf = ({ awaiting }: Awaiting): readonly string[] => awaiting.map(({ kind, namespace, name }) => `${kind} ${namespace === null ? "" : `${namespace}/`}${name}`);

/** Button and dialog that approve all deletions of a service. */
export function DeletionApproval({ service, onDone }: { readonly service: Awaiting; readonly onDone?: () => void }) {
  const [dialog, setDialog] = useState(false);
  const [{ error }, confirm] = useMutation(ConfirmDeletionsDocument);
  const names = namesOf(service);
  const go = async () => {
    const objects = service.awaiting.map(({ kind, name, group, namespace }) => ({ kind, name, group, namespace }));
    const result = await confirm({ id: service.id, objects });
    setDialog(false);
    if (result.error !== undefined) return;
    toast(`Deleting ${counted(names.length, "object")}`);
    onDone?.();
  };
  return (
    <>
      {error !== undefined && <Problem error={error} />}
      <button type="button" className="danger" onClick={() => setDialog(true)}>
        Approve deletions…
      </button>
      {dialog && (
        <Confirm title={`Delete ${counted(names.length, "object")} of ${service.name}?`} action="Delete objects" typed={service.name} onConfirm={() => void go()} onCancel={() => setDialog(false)}>
          <p>{names.join(", ")}</p>
        </Confirm>
      )}
    </>
  );
}

/** Deletions that exceed the deletion budget and need approval. */
export function PendingDeletions({ service }: { readonly service: Service }) {
  if (service.awaiting.length === 0) return null;
  const names = namesOf(service);
  return (
    <section className="pending-deletions">
      <strong>{counted(names.length, "deletion")} need approval</strong>
      <ul>
        {names.slice(0, 20).map((name) => (
          <li key={name}>{name}</li>
        ))}
      </ul>
      <DeletionApproval service={service} />
    </section>
  );
}
