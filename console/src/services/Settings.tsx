import { useState, type SubmitEvent } from "react";
import { useMutation, type CombinedError } from "urql";
import { useLocation } from "wouter";
import { DeleteServiceDocument, DetachServiceDocument } from "../api/generated";
import { FieldManagers } from "../manage/FieldManagers";
import { counted } from "../text/counts";
import { Confirm } from "../ui/Confirm";
import { textOf } from "../ui/form";
import { FormBar } from "../ui/FormBar";
import { Problem } from "../ui/Problem";
import { toast } from "../ui/toast";
import type { Service } from "./service";
import { changeSyncOptions } from "./syncOptions";

const POLICIES = ["HEAL", "REPORT", "IGNORE"] as const;

function Edit({ service }: { readonly service: Service }) {
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<CombinedError>();
  const submit = async (event: SubmitEvent<HTMLFormElement>) => {
    event.preventDefault();
    const form = new FormData(event.currentTarget);
    const text = (name: string) => textOf(form, name);
    const attributes = {
      git: { ref: text("ref"), folder: text("folder") },
      protect: form.has("protect"),
      templated: form.has("templated"),
      dryRun: form.has("dryRun"),
    };
    const driftPolicy = POLICIES.find((known) => known === text("drift")) ?? "HEAL";
    setBusy(true);
    const problem = await changeSyncOptions(service.id, (options) => ({ ...options, driftPolicy }), attributes);
    setBusy(false);
    setError(problem);
    if (problem === undefined) toast(`${service.name} updated`);
  };
  return (
    <form className="form card" onSubmit={(event) => void submit(event)}>
      <h2>Configuration</h2>
      <div className="two">
        <label>
          Branch, tag or commit
          <input name="ref" defaultValue={service.git?.ref ?? ""} required />
        </label>
        <label>
          Folder
          <input name="folder" defaultValue={service.git?.folder ?? ""} />
        </label>
      </div>
      <label>
        Drift policy
        <select name="drift" defaultValue={service.syncConfig.driftPolicy}>
          <option value="HEAL">Self-heal drift</option>
          <option value="REPORT">Detect only</option>
          <option value="IGNORE">Off</option>
        </select>
      </label>
      <label className="check">
        <input type="checkbox" name="protect" defaultChecked={service.protect} /> Deletion protection
      </label>
      <label className="check">
        <input type="checkbox" name="templated" defaultChecked={service.templated} /> Expand Liquid templates in manifests
      </label>
      <label className="check">
        <input type="checkbox" name="dryRun" defaultChecked={service.dryRun} /> Dry run: report changes without applying them
      </label>
      <FormBar action="Save" busy={busy} error={error} />
    </form>
  );
}

function DangerZone({ service }: { readonly service: Service }) {
  const [dialog, setDialog] = useState<"delete" | "detach" | null>(null);
  const [deleted, remove] = useMutation(DeleteServiceDocument);
  const [detached, detach] = useMutation(DetachServiceDocument);
  const [, go] = useLocation();
  const error = deleted.error ?? detached.error;
  const end = async () => {
    const result = dialog === "delete" ? await remove({ id: service.id }) : await detach({ id: service.id });
    setDialog(null);
    if (result.error !== undefined) return;
    toast(dialog === "delete" ? `Deleting ${service.name} and its objects` : `${service.name} removed from Towline; its objects stay in the cluster`);
    go("/services");
  };
  return (
    <section className="form card danger-zone">
      <h2>Danger zone</h2>
      {error !== undefined && <Problem error={error} />}
      <div className="bar">
        <button type="button" onClick={() => setDialog("detach")}>
          Remove from Towline, keep resources…
        </button>
        <button type="button" className="danger" onClick={() => setDialog("delete")}>
          Delete service and {counted(service.components.length, "object")}…
        </button>
      </div>
      {dialog !== null && (
        <Confirm
          title={dialog === "delete" ? `Delete ${service.name} in ${service.cluster?.handle ?? "its cluster"}?` : `Remove ${service.name} from Towline?`}
          action={dialog === "delete" ? "Delete service" : "Remove service"}
          typed={dialog === "delete" ? service.name : undefined}
          onConfirm={() => void end()}
          onCancel={() => setDialog(null)}
        >
          <p>
            {dialog === "delete"
              ? `Deletes ${counted(service.components.length, "object")} in the cluster. This cannot be undone.`
              : "Its objects stay in the cluster, and Towline no longer manages them."}
          </p>
        </Confirm>
      )}
    </section>
  );
}

/** Configuration and removal of a service. */
export function Settings({ service }: { readonly service: Service }) {
  return (
    <div className="stack">
      {service.cluster !== null && <FieldManagers kind="Service" name={`${service.cluster.handle}/${service.name}`} />}
      <Edit key={service.id} service={service} />
      <DangerZone service={service} />
    </div>
  );
}
