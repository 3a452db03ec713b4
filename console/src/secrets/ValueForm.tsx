import { useState, type SubmitEvent } from "react";
import { useMutation } from "urql";
import { refresh } from "../api/client";
import { SaveSecretDocument, type SecretAttributes, type SecretRowFragment, type SecretSourceKind } from "../api/generated";
import { exactlyOf, textOf } from "../ui/form";
import { FormBar } from "../ui/FormBar";
import { toast } from "../ui/toast";

type Kept = "HERE" | SecretSourceKind;
const KEPT: readonly (readonly [Kept, string])[] = [
  ["HERE", "sealed here"],
  ["VAULT", "in Vault"],
  ["KUBERNETES", "in a Secret of the control plane's cluster"],
  ["ENVIRONMENT", "in an environment variable of the control plane"],
];

function whereOf(form: FormData, kept: Kept): SecretAttributes {
  if (kept === "HERE") return { value: exactlyOf(form, "value") };
  return { source: { kind: kept, key: textOf(form, "key"), store: textOf(form, "store"), path: textOf(form, "path") } };
}

function rotationOf(form: FormData): SecretAttributes["rotation"] {
  if (!form.has("batch")) return null;
  const number = (name: string) => Number(textOf(form, name));
  return { batch: number("batch"), soakSeconds: number("soak"), timeoutSeconds: number("timeout"), automatic: form.has("automatic") };
}

function Rotation() {
  return (
    <fieldset>
      <legend>How the services get it</legend>
      <div className="two">
        <label>
          At a time <small>services</small>
          <input name="batch" type="number" min={1} max={1000} defaultValue={1} />
        </label>
        <label>
          Healthy for <small>seconds, each</small>
          <input name="soak" type="number" min={0} max={86400} defaultValue={60} />
        </label>
        <label>
          Give up after <small>seconds</small>
          <input name="timeout" type="number" min={1} max={86400} defaultValue={900} />
        </label>
      </div>
      <label className="check">
        <input type="checkbox" name="automatic" /> Destroy the old version by itself when all is well
      </label>
    </fieldset>
  );
}

function Value() {
  return (
    <label>
      Value <small>sealed as it arrives; nobody sees it again, also you</small>
      <textarea name="value" className="masked" rows={3} autoComplete="off" spellCheck={false} required />
    </label>
  );
}

function Source({ kind }: { readonly kind: SecretSourceKind }) {
  return (
    <>
      {kind !== "ENVIRONMENT" && (
        <div className="two">
          <label>
            {kind === "VAULT" ? "Mount" : "Namespace"}
            <input name="store" maxLength={255} />
          </label>
          <label>
            {kind === "VAULT" ? "Path" : "Secret"}
            <input name="path" required maxLength={1000} />
          </label>
        </div>
      )}
      <label>
        {kind === "ENVIRONMENT" ? "Variable" : "Key"}
        <input name="key" required maxLength={255} />
      </label>
    </>
  );
}

type Props = { readonly secret: SecretRowFragment | null; readonly onDone: () => void };

/** Sets a value that nobody reads back: of a new secret, or the next version of one that is there. */
export function ValueForm({ secret, onDone }: Props) {
  const [{ error, fetching }, save] = useMutation(SaveSecretDocument);
  const [kept, keep] = useState<Kept>("HERE");
  const submit = async (event: SubmitEvent<HTMLFormElement>) => {
    event.preventDefault();
    const form = new FormData(event.currentTarget);
    const described = form.has("description") ? { description: textOf(form, "description") } : {};
    const name = secret?.name ?? textOf(form, "name");
    const result = await save({ name, attributes: { ...described, ...whereOf(form, kept), rotation: rotationOf(form) } });
    if (result.error !== undefined) return;
    toast(secret === null ? `${name} is sealed.` : `${name} has a new version.`);
    refresh();
    onDone();
  };
  return (
    <form className="form card" onSubmit={(event) => void submit(event)}>
      <h2>{secret === null ? "New secret" : `New version of ${secret.name}`}</h2>
      {secret === null && (
        <>
          <label>
            Name
            <input name="name" required maxLength={255} autoFocus />
          </label>
          <label>
            What it is for
            <input name="description" maxLength={1000} />
          </label>
        </>
      )}
      <label>
        Its value is
        <select value={kept} onChange={(event) => keep(KEPT.find(([one]) => one === event.target.value)?.[0] ?? "HERE")}>
          {KEPT.map(([one, title]) => (
            <option key={one} value={one}>
              {title}
            </option>
          ))}
        </select>
      </label>
      {kept === "HERE" ? <Value /> : <Source kind={kept} />}
      {secret !== null && <Rotation />}
      <FormBar action={secret === null ? "Seal it" : "Begin the rotation"} busy={fetching} error={error} onCancel={onDone} />
    </form>
  );
}
