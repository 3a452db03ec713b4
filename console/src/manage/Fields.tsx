import { useEffect, useState } from "react";
import { useClient } from "urql";
import { Field } from "../pipelines/RuleForm";
import { Combobox } from "../ui/Combobox";
import { choicesOf } from "./choices";
import type { FormField, Values } from "./kind";

type InputProps = { readonly field: FormField; readonly value: unknown; readonly onChange: (next: unknown) => void };

/** Names of resources that contain the typed text. */
function useChoices({ choice }: FormField, typed: string): readonly string[] {
  const client = useClient();
  const [labels, setLabels] = useState<readonly string[]>([]);
  useEffect(() => {
    if (choice === undefined) return undefined;
    let cancelled = false;
    void choicesOf(client, choice, typed).then((found) => !cancelled && setLabels(found.map(({ label }) => label)));
    return () => {
      cancelled = true;
    };
  }, [client, choice, typed]);
  return labels;
}

function ManyInput({ field, value, onChange }: InputProps) {
  const names = Array.isArray(value) ? value.map(String) : [];
  const [typed, setTyped] = useState("");
  const offered = useChoices(field, typed);
  const add = (text: string) => {
    const isKnown = offered.includes(text) && !names.includes(text);
    setTyped(isKnown ? "" : text);
    if (isKnown) onChange([...names, text]);
  };
  return (
    <fieldset>
      <legend>{field.title}</legend>
      {names.length > 0 && (
        <ul className="picked">
          {names.map((name) => (
            <li key={name} className="tag">
              {name}{" "}
              <button type="button" className="link" aria-label={`Remove ${name}`} onClick={() => onChange(names.filter((other) => other !== name))}>
                ✕
              </button>
            </li>
          ))}
        </ul>
      )}
      <Combobox label={`Add ${field.choice ?? ""}`} placeholder={`Add ${field.choice ?? ""}`} value={typed} offered={offered} onChange={add} />
      {field.note !== undefined && <small>{field.note}</small>}
    </fieldset>
  );
}

function ChoiceInput({ field, value, onChange }: InputProps) {
  const typed = typeof value === "string" ? value : "";
  const offered = useChoices(field, typed);
  return (
    <label>
      {field.title} <small>{field.note ?? "type part of its name"}</small>
      <Combobox value={typed} offered={offered} onChange={(next) => onChange(next === "" ? undefined : next)} />
    </label>
  );
}

/** Fields of a dialog. */
export function Fields({ fields, values, onChange }: { readonly fields: readonly FormField[]; readonly values: Values; readonly onChange: (next: Values) => void }) {
  return fields.map((field) => {
    const shared = { field, value: values[field.path], onChange: (next: unknown) => onChange({ ...values, [field.path]: next }) };
    if (field.choice === undefined) return <Field key={field.path} {...shared} field={{ ...field, of: field.of ?? "text" }} />;
    return field.many === true ? <ManyInput key={field.path} {...shared} /> : <ChoiceInput key={field.path} {...shared} />;
  });
}
