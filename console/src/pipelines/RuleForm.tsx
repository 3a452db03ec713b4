import { useState, type ReactNode } from "react";
import { parseMapping } from "../text/parseMapping";
import { toYaml } from "../text/yaml";
import type { RuleText } from "./definition";
import { at, withAt, type GateField, type GateKind } from "./gatekinds";

type FieldProps = { readonly field: GateField; readonly value: unknown; readonly onChange: (next: unknown) => void };

const asText = (value: unknown): string => (typeof value === "string" || typeof value === "number" ? String(value) : "");

/** YAML editor of an object. Invalid text is kept as typed and reported as an error. */
function YamlInput({ value, onChange }: { readonly value: unknown; readonly onChange: (next: unknown) => void }) {
  const [text, setText] = useState(() => (typeof value === "object" && value !== null ? toYaml(value) : asText(value)));
  const change = (next: string) => {
    setText(next);
    const { value: object, problem } = parseMapping(next);
    onChange(problem === "" ? object : next);
  };
  return <textarea rows={10} className="code-input" spellCheck={false} value={text} onChange={(event) => change(event.target.value)} />;
}

const wordsOf = (text: string): readonly string[] => text.split(/[\s,]+/).filter((word) => word !== "");

/** List of words; keeps the separator that the user just typed, unless the list changes elsewhere. */
function ListInput({ value, onChange }: Omit<FieldProps, "field">) {
  const [text, setText] = useState("");
  const words = Array.isArray(value) ? value.map(String) : [];
  const change = (typed: string) => {
    const next = wordsOf(typed);
    setText(typed);
    onChange(next.length === 0 ? undefined : next);
  };
  return <input autoComplete="off" value={wordsOf(text).join() === words.join() ? text : words.join(" ")} onChange={(event) => change(event.target.value)} />;
}

function Input({ field: { of }, value, onChange }: FieldProps) {
  if (typeof of !== "string")
    return (
      <select value={asText(value) || of[0]} onChange={(event) => onChange(event.target.value)}>
        {of.map((option) => (
          <option key={option} value={option}>
            {option.toLowerCase().replaceAll("_", " ")}
          </option>
        ))}
      </select>
    );
  const change = (text: string) => {
    if (text === "") onChange(undefined);
    else if (of === "number") onChange(Number(text));
    else onChange(text);
  };
  if (of === "yaml") return <YamlInput value={value} onChange={onChange} />;
  if (of === "long") return <textarea rows={6} spellCheck={false} value={asText(value)} onChange={(event) => change(event.target.value)} />;
  const kind = of === "number" ? "number" : of === "secret" ? "password" : "text";
  if (of === "list") return <ListInput value={value} onChange={onChange} />;
  return <input type={kind} step="any" autoComplete="off" value={asText(value)} onChange={(event) => change(event.target.value)} />;
}

/** Form field of any kind. */
export function Field(props: FieldProps) {
  const { field, value, onChange } = props;
  if (field.of === "check") {
    const { default: fallback = false } = field;
    return (
      <label className="check">
        <input type="checkbox" checked={(value ?? fallback) === true} onChange={({ target: { checked } }) => onChange(checked === fallback ? undefined : checked)} /> {field.title}
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

type Kinds<Type extends string> = Readonly<Record<Type, GateKind>>;

/** New gate or step of a kind, with its initial settings. */
export const newRule = <Type extends string>(kinds: Kinds<Type>, name: string, type: Type): RuleText<Type> => ({ name, type, ...kinds[type].initial });

type Props<Type extends string> = {
  readonly rule: RuleText<Type>;
  readonly kinds: Kinds<Type>;
  /** `gate` or `step`. */
  readonly noun: string;
  readonly onChange: (next: RuleText<Type>) => void;
  readonly onRemove: () => void;
  readonly children?: ReactNode;
};

/** Form of a gate or a step. Settings that the form does not show stay in the YAML. */
export function RuleForm<Type extends string>({ rule, kinds, noun, onChange, onRemove, children }: Props<Type>) {
  const types = Object.keys(kinds) as Type[];
  const kind = types.includes(rule.type) ? kinds[rule.type] : undefined;
  return (
    <details className="gate-form" open={rule.name === ""}>
      <summary>
        <strong>{rule.name || `New ${noun}`}</strong> <span className="quiet">{kind === undefined ? "unknown kind" : `${kind.title}: ${kind.description}`}</span>
      </summary>
      <div className="stack">
        <div className="two">
          <label>
            Name
            <input value={rule.name} maxLength={255} onChange={(event) => onChange({ ...rule, name: event.target.value })} />
          </label>
          <label>
            Kind
            <select value={rule.type} onChange={(event) => onChange(newRule(kinds, rule.name, event.target.value as Type))}>
              {kind === undefined && <option value={rule.type}>Select a kind</option>}
              {types.map((type) => (
                <option key={type} value={type}>
                  {kinds[type].title}
                </option>
              ))}
            </select>
          </label>
        </div>
        {kind?.fields.map((field) => (
          <Field key={field.path} field={field} value={at(rule, field.path)} onChange={(next) => onChange(withAt(rule, field.path, next))} />
        ))}
        {children}
        <div>
          <button type="button" onClick={onRemove}>
            Remove {noun}
          </button>
        </div>
      </div>
    </details>
  );
}
