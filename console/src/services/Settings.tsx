import { useState, type SubmitEvent } from "react";
import { useMutation } from "urql";
import { useLocation } from "wouter";
import { DeleteServiceDocument, DetachServiceDocument, UpdateServiceDocument } from "../api/generated";
import { Confirm } from "../ui/Confirm";
import { textOf } from "../ui/form";
import { FormBar } from "../ui/FormBar";
import { Problem } from "../ui/Problem";
import { toast } from "../ui/toast";
import type { Service } from "./service";

const POLICIES = ["HEAL", "REPORT", "IGNORE"] as const;

function Edit({ service }: { readonly service: Service }) {
  const [{ error, fetching }, update] = useMutation(UpdateServiceDocument);
  const submit = async (event: SubmitEvent<HTMLFormElement>) => {
    event.preventDefault();
    const form = new FormData(event.currentTarget);
    const text = (name: string) => textOf(form, name);
    const attributes = {
      git: { ref: text("ref"), folder: text("folder") },
      protect: form.has("protect"),
      dryRun: form.has("dryRun"),
      syncConfig: { driftPolicy: POLICIES.find((one) => one === text("drift")) ?? "HEAL" },
    };
    const result = await update({ id: service.id, attributes });
    if (result.error === undefined) toast(`${service.name} is changed.`);
  };
  return (
    <form className="form card" onSubmit={(event) => void submit(event)}>
      <h2>What it is</h2>
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
        Drift
        <select name="drift" defaultValue={service.syncConfig.driftPolicy}>
          <option value="HEAL">put right what somebody changes by hand</option>
          <option value="REPORT">only say what differs</option>
          <option value="IGNORE">do not look</option>
        </select>
      </label>
      <label className="check">
        <input type="checkbox" name="protect" defaultChecked={service.protect} /> Refuse to delete it
      </label>
      <label className="check">
        <input type="checkbox" name="dryRun" defaultChecked={service.dryRun} /> Dry run: tell what would be done, do nothing
      </label>
      <FormBar action="Save" busy={fetching} error={error} />
    </form>
  );
}

function Endings({ service }: { readonly service: Service }) {
  const [asking, ask] = useState<"delete" | "detach" | null>(null);
  const [deleted, remove] = useMutation(DeleteServiceDocument);
  const [detached, detach] = useMutation(DetachServiceDocument);
  const [, go] = useLocation();
  const error = deleted.error ?? detached.error;
  const end = async () => {
    const result = asking === "delete" ? await remove({ id: service.id }) : await detach({ id: service.id });
    ask(null);
    if (result.error !== undefined) return;
    toast(asking === "delete" ? `${service.name} and its objects are being deleted.` : `${service.name} is forgotten here; its objects stay.`);
    go("/services");
  };
  return (
    <section className="form card danger-zone">
      <h2>End it</h2>
      {error !== undefined && <Problem error={error} />}
      <div className="bar">
        <button type="button" onClick={() => ask("detach")}>
          Forget it, leave its objects…
        </button>
        <button type="button" className="danger" onClick={() => ask("delete")}>
          Delete it with its {service.components.length} objects…
        </button>
      </div>
      {asking !== null && (
        <Confirm
          title={asking === "delete" ? `Delete ${service.name} in ${service.cluster?.handle ?? "its cluster"}?` : `Forget ${service.name}?`}
          action={asking === "delete" ? "Delete it" : "Forget it"}
          typed={asking === "delete" ? service.name : undefined}
          onConfirm={() => void end()}
          onCancel={() => ask(null)}
        >
          <p>
            {asking === "delete"
              ? `Its ${service.components.length} objects are deleted in the cluster. This cannot be undone.`
              : "Its objects stay in the cluster as they are, and nobody looks after them any more."}
          </p>
        </Confirm>
      )}
    </section>
  );
}

/** How a service is defined, and how it ends. */
export function Settings({ service }: { readonly service: Service }) {
  return (
    <div className="stack">
      <Edit key={service.id} service={service} />
      <Endings service={service} />
    </div>
  );
}
