import { useEffect, useId, useRef, useState, type SubmitEvent } from "react";
import { useClient, type Client, type CombinedError } from "urql";
import { refresh } from "../api/client";
import { FormBar } from "../ui/FormBar";
import { Problem } from "../ui/Problem";
import { Secret } from "../ui/Secret";
import { toast } from "../ui/toast";
import { inverseOf } from "../undo/inverses";
import { Command } from "./Command";
import { Fields } from "./Fields";
import { idOf } from "./choices";
import type { Action, FormField, Outcome, Values } from "./kind";
import { commandLine, complaintsOf, list, text } from "./values";
import "../ui/confirm.css";
import "../pipelines/pipelines.css";
import "./manage.css";

/** Values with the ids of named resources, and the names that do not exist. */
async function resolved(client: Client, fields: readonly FormField[], values: Values): Promise<readonly [Values, readonly string[]]> {
  const ids: Record<string, unknown> = { ...values };
  const unknown: string[] = [];
  for (const { path, choice, many = false } of fields) {
    if (choice === undefined) continue;
    const names = many ? list(values, path) : text(values, path) === "" ? [] : [text(values, path)];
    const found = await Promise.all(names.map(async (name) => [name, await idOf(client, choice, name)] as const));
    unknown.push(...found.filter(([, id]) => id === null).map(([name]) => `${choice} ${name} not found`));
    const known = found.flatMap(([, id]) => (id === null ? [] : [id]));
    ids[path] = many ? known : known[0];
  }
  return [ids, unknown];
}

type Props<Node> = { readonly action: Action<Node>; readonly node: Node; readonly onDone: () => void };

/** Dialog of an action: consequence, fields, preview, and the equivalent command. */
export function ActionDialog<Node>({ action, node, onDone }: Props<Node>) {
  const client = useClient();
  const dialog = useRef<HTMLDialogElement>(null);
  const heading = useId();
  const { fields = [] } = action;
  const [start] = useState<Values>(() => action.initial?.(node) ?? {});
  const [values, setValues] = useState<Values>(start);
  const [typed, setTyped] = useState("");
  const [busy, setBusy] = useState(false);
  const [unknown, setUnknown] = useState<readonly string[]>([]);
  const [error, setError] = useState<CombinedError | undefined>();
  const [outcome, setOutcome] = useState<Outcome | null>(null);
  const [preview, setPreview] = useState<Outcome | null>(null);
  useEffect(() => dialog.current?.showModal(), []);
  const mustType = action.typed?.(node);
  const complaints = [...complaintsOf(fields, values), ...unknown, ...(mustType !== undefined && typed !== mustType ? [`type ${mustType} to confirm`] : [])];
  const change = (next: Values) => {
    setUnknown([]);
    setPreview(null);
    setValues(next);
  };
  const perform = async (run: Action<Node>["run"]): Promise<Outcome | null> => {
    setBusy(true);
    const [ids, missing] = await resolved(client, fields, values);
    setUnknown(missing);
    const result = missing.length === 0 ? await run(client, ids, node) : null;
    setBusy(false);
    setError(result?.error);
    return result;
  };
  const submit = async (event: SubmitEvent<HTMLFormElement>) => {
    event.preventDefault();
    const result = await perform(action.run);
    if (result === null || result.error !== undefined) return;
    refresh();
    toast(action.done, inverseOf(result, node));
    if (result.secret == null && result.content === undefined) onDone();
    else setOutcome(result);
  };
  const command = action.command?.(values, node) ?? [];
  return (
    <dialog ref={dialog} className="confirm action-dialog" aria-labelledby={heading} onClose={onDone}>
      <h2 id={heading}>{action.title}</h2>
      {outcome !== null ? (
        <>
          {outcome.content}
          {outcome.secret != null && <Secret title={outcome.secret.title} text={outcome.secret.text} />}
          <div className="bar">
            <span className="fill" />
            <button type="button" className="primary" onClick={onDone}>
              Close
            </button>
          </div>
        </>
      ) : (
        <form className="form" onSubmit={(event) => void submit(event)}>
          {action.consequence !== undefined && <p>{action.consequence(node)}</p>}
          <Fields fields={fields} values={values} onChange={change} />
          {mustType !== undefined && (
            <label>
              Confirmation{" "}
              <small>
                type <code>{mustType}</code>
              </small>
              <input value={typed} onChange={(event) => setTyped(event.target.value)} autoComplete="off" />
            </label>
          )}
          {preview !== null && (preview.error === undefined ? <section aria-label="Preview">{preview.content}</section> : <Problem error={preview.error} />)}
          {command.length > 0 && <Command text={commandLine(command)} />}
          <FormBar action={action.title} busy={busy} complaints={complaints} isTouched={values !== start || typed !== ""} error={error} onCancel={onDone}>
            {action.preview !== undefined && (
              <button type="button" disabled={busy || complaints.length > 0} onClick={() => void perform(action.preview ?? action.run).then(setPreview)}>
                Preview
              </button>
            )}
          </FormBar>
        </form>
      )}
    </dialog>
  );
}
