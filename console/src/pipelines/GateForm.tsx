import { useState } from "react";
import type { GateType } from "../api/generated";
import { judged } from "../text/judge";
import { toYaml } from "../text/yaml";
import type { GateText } from "./definition";
import { at, GATE_KINDS, withAt, type GateField } from "./gatekinds";

const TYPES = Object.keys(GATE_KINDS) as GateType[];

type FieldProps = { readonly field: GateField; readonly value: unknown; readonly onChange: (next: unknown) => void };

const asText = (value: unknown): string => (Array.isArray(value) ? value.join(" ") : typeof value === "string" || typeof value === "number" ? String(value) : "");

/** An object as YAML. What is none yet is kept as it is typed, and complained of. */
function YamlInput({ value, onChange }: { readonly value: unknown; readonly onChange: (next: unknown) => void }) {
  const [text, setText] = useState(() => (typeof value === "object" && value !== null ? toYaml(value) : asText(value)));
  const change = (next: string) => {
    setText(next);
    const { value: object, problem } = judged(next);
    onChange(problem === "" ? object : next);
  };
  return <textarea rows={10} className="code-input" spellCheck={false} value={text} onChange={(event) => change(event.target.value)} />;
}

function Input({ field: { of }, value, onChange }: FieldProps) {
  if (typeof of !== "string")
    return (
      <select value={asText(value) || of[0]} onChange={(event) => onChange(event.target.value)}>
        {of.map((one) => (
          <option key={one} value={one}>
            {one.toLowerCase().replaceAll("_", " ")}
          </option>
        ))}
      </select>
    );
  const change = (text: string) => {
    if (text === "") onChange(undefined);
    else if (of === "number") onChange(Number(text));
    else onChange(of === "list" ? text.split(/[\s,]+/).filter((one) => one !== "") : text);
  };
  if (of === "yaml") return <YamlInput value={value} onChange={onChange} />;
  if (of === "long") return <textarea rows={6} spellCheck={false} value={asText(value)} onChange={(event) => change(event.target.value)} />;
  const kind = of === "number" ? "number" : of === "secret" ? "password" : "text";
  // A list is split when it is left: while it is typed, a blank at its end belongs to it.
  if (of === "list") return <input key={asText(value)} defaultValue={asText(value)} onBlur={(event) => change(event.target.value)} />;
  return <input type={kind} step="any" autoComplete="off" value={asText(value)} onChange={(event) => change(event.target.value)} />;
}

function Field(props: FieldProps) {
  const { field, value, onChange } = props;
  if (field.of === "check") {
    const { usual = false } = field;
    return (
      <label className="check">
        <input type="checkbox" checked={(value ?? usual) === true} onChange={({ target: { checked } }) => onChange(checked === usual ? undefined : checked)} /> {field.title}
      </label>
    );
  }
  return (
    <label>
      {field.title} {field.note !== undefined && <small>{field.note}</small>}
      <Input {...props} />
    </label>
  );
}

type Props = { readonly gate: GateText; readonly onChange: (next: GateText) => void; readonly onRemove: () => void };

/** One gate of any kind; what its form does not show stands in the YAML and stays. */
export function GateForm({ gate, onChange, onRemove }: Props) {
  const kind = TYPES.includes(gate.type) ? GATE_KINDS[gate.type] : undefined;
  return (
    <details className="gate-form" open={gate.name === ""}>
      <summary>
        <strong>{gate.name || "a gate"}</strong> <span className="quiet">{kind === undefined ? "of no kind" : `${kind.title.toLowerCase()}: ${kind.what}`}</span>
      </summary>
      <div className="stack">
        <div className="two">
          <label>
            Name
            <input value={gate.name} maxLength={255} onChange={(event) => onChange({ ...gate, name: event.target.value })} />
          </label>
          <label>
            Kind
            <select value={gate.type} onChange={(event) => onChange(begunGate(gate.name, event.target.value as GateType))}>
              {kind === undefined && <option value={gate.type}>choose one</option>}
              {TYPES.map((type) => (
                <option key={type} value={type}>
                  {GATE_KINDS[type].title}
                </option>
              ))}
            </select>
          </label>
        </div>
        {kind?.fields.map((field) => (
          <Field key={field.path} field={field} value={at(gate, field.path)} onChange={(next) => onChange(withAt(gate, field.path, next))} />
        ))}
        {gate.type === "WORKFLOW" && <p className="quiet">Its steps are written in the YAML: each is a gate of another kind, with `after`.</p>}
        <div>
          <button type="button" onClick={onRemove}>
            Remove this gate
          </button>
        </div>
      </div>
    </details>
  );
}

/** A gate of a kind as it is begun with. */
export function begunGate(name: string, type: GateType): GateText {
  return { name, type, ...GATE_KINDS[type].begun };
}
