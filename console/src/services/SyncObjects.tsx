import { RefreshCw } from "lucide-react";
import { useState } from "react";
import { useMutation } from "urql";
import { SyncObjectsDocument } from "../api/generated";
import { Command } from "../manage/Command";
import { commandLine } from "../manage/values";
import { counted } from "../text/counts";
import { Confirm } from "../ui/Confirm";
import { Problem } from "../ui/Problem";
import { toast } from "../ui/toast";

export type SyncedObject = { readonly group: string | null; readonly kind: string; readonly namespace: string | null; readonly name: string };

type Props = { readonly serviceId: string; readonly objects: readonly SyncedObject[]; readonly title?: string };

/** Name of an object in commands; the kind has its group, so that it is unique. */
const nameOf = ({ group, kind, namespace, name }: SyncedObject): string => [group ? `${kind}.${group}` : kind, ...(namespace ? [namespace] : []), name].join("/");

/** Command with the same effect. */
export const syncCommand = (serviceId: string, objects: readonly SyncedObject[], prune: boolean): string =>
  commandLine(["services", "sync", serviceId, ...objects.flatMap((object) => ["--resource", nameOf(object)]), ...(prune ? ["--prune"] : [])]);

function SyncDialog({ serviceId, objects, onDone }: Props & { readonly onDone: () => void }) {
  const [prune, setPrune] = useState(false);
  const [{ error, fetching }, sync] = useMutation(SyncObjectsDocument);
  const [only] = objects;
  const what = objects.length === 1 && only !== undefined ? `${only.kind} ${only.name}` : counted(objects.length, "object");
  const go = async () => {
    const refs = objects.map(({ group, kind, namespace, name }) => ({ group, kind, namespace, name }));
    const result = await sync({ id: serviceId, objects: refs, prune });
    if (result.error !== undefined) return;
    onDone();
    toast(`Sync of ${what} started; the history of the service has the result`);
  };
  return (
    <Confirm title={`Sync ${what}?`} action="Sync" disabled={fetching} onCancel={onDone} onConfirm={() => void go()}>
      {error !== undefined && <Problem error={error} />}
      <p>The agent applies only {objects.length === 1 ? "this object" : "these objects"} of the service. Hooks do not run, and it is no deployment.</p>
      <label className="check">
        <input type="checkbox" checked={prune} onChange={(event) => setPrune(event.target.checked)} /> Prune: delete {objects.length === 1 ? "it if it is" : "those that are"} no longer in Git
      </label>
      <Command text={syncCommand(serviceId, objects, prune)} />
    </Confirm>
  );
}

/** Button that syncs only some objects of a service, after a question. */
export function SyncObjects({ serviceId, objects, title = "Sync object…" }: Props) {
  const [isOpen, setOpen] = useState(false);
  return (
    <>
      <button type="button" onClick={() => setOpen(true)}>
        <RefreshCw size={14} aria-hidden="true" /> {title}
      </button>
      {isOpen && <SyncDialog serviceId={serviceId} objects={objects} onDone={() => setOpen(false)} />}
    </>
  );
}
