import { useState, type SubmitEvent } from "react";
import { useMutation } from "urql";
import { refresh } from "../api/client";
import { SaveSecretDocument, type SecretAttributes, type SecretRowFragment, type SecretSourceKind } from "../api/generated";
import { SECRET_SOURCES } from "../api/secretSources";
import { exactlyOf, textOf } from "../ui/form";
import { FormBar } from "../ui/FormBar";
import { toast } from "../ui/toast";
import { SOURCE_KINDS, sourceFrom } from "./source";

type Store = "HERE" | SecretSourceKind;
const STORES: readonly (readonly [Store, string])[] = [
  ["HERE", "Towline (encrypted)"],
  ...SOURCE_KINDS.map((kind) => [kind, SECRET_SOURCES[kind].title] as const),
];

function sourceOf(form: FormData, store: Store): SecretAttributes {
  return store === "HERE" ? { value: exactlyOf(form, "value") } : sourceFrom(form, store);
}

function rotationOf(form: FormData): SecretAttributes["rotation"] {
  if (!form.has("batch")) return null;
  const number = (name: string) => Number(textOf(form, name));
  return { batch: number("batch"), soakSeconds: number("soak"), timeoutSeconds: number("timeout"), automatic: form.has("automatic") };
}

function Rotation({ plan }: { readonly plan: SecretRowFragment["rotationPlan"] }) {
  return (
    <fieldset>
      <legend>Rotation</legend>
      <div className="two">
        <label>
          Batch size <small>services updated at the same time; 0: all at once</small>
          <input name="batch" type="number" min={0} max={1000} defaultValue={plan?.batch ?? 1} />
        </label>
        <label>
          Soak time <small>seconds that each service must stay healthy</small>
          <input name="soak" type="number" min={0} max={86400} defaultValue={plan?.soakSeconds ?? 60} />
        </label>
        <label>
          Timeout <small>seconds</small>
          <input name="timeout" type="number" min={1} max={86400} defaultValue={plan?.timeoutSeconds ?? 900} />
        </label>
      </div>
      <label className="check">
        <input type="checkbox" name="automatic" defaultChecked={plan?.automatic} /> Destroy the old version automatically after success
      </label>
    </fieldset>
  );
}

function Value() {
  return (
    <label>
      Value <small>stored encrypted; cannot be viewed again</small>
      <textarea name="value" className="masked" rows={3} autoComplete="off" spellCheck={false} required />
    </label>
  );
}

function Source({ kind }: { readonly kind: SecretSourceKind }) {
  return SECRET_SOURCES[kind].fields.map(({ name, title, note, required, maxLength }) => (
    <label key={name}>
      {title} <small>{note}</small>
      <input name={name} required={required} maxLength={maxLength} />
    </label>
  ));
}

type Props = { readonly secret: SecretRowFragment | null; readonly onDone: () => void };

/** Creates a secret, or the next version of an existing one. The API never returns the value. */
export function ValueForm({ secret, onDone }: Props) {
  const [{ error, fetching }, save] = useMutation(SaveSecretDocument);
  const [store, setStore] = useState<Store>("HERE");
  const submit = async (event: SubmitEvent<HTMLFormElement>) => {
    event.preventDefault();
    const form = new FormData(event.currentTarget);
    const described = form.has("description") ? { description: textOf(form, "description") } : {};
    const name = secret?.name ?? textOf(form, "name");
    const result = await save({ name, attributes: { ...described, ...sourceOf(form, store), rotation: rotationOf(form) } });
    if (result.error !== undefined) return;
    toast(secret === null ? `Secret ${name} created` : `New version of ${name} created`);
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
            Description
            <input name="description" maxLength={1000} />
          </label>
        </>
      )}
      <label>
        Store
        <select value={store} onChange={(event) => setStore(STORES.find(([kind]) => kind === event.target.value)?.[0] ?? "HERE")}>
          {STORES.map(([kind, title]) => (
            <option key={kind} value={kind}>
              {title}
            </option>
          ))}
        </select>
      </label>
      {store === "HERE" ? <Value /> : <Source kind={store} />}
      {secret !== null && <Rotation plan={secret.rotationPlan} />}
      <FormBar action={secret === null ? "Create secret" : "Start rotation"} busy={fetching} error={error} onCancel={onDone} />
    </form>
  );
}
