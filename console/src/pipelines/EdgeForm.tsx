import type { Definition } from "./definition";
import { GateForm } from "./GateForm";
import { GATE_KINDS } from "../api/kinds";
import { newRule } from "./RuleForm";

type Props = { readonly definition: Definition; readonly onChange: (next: Definition) => void };

/** Transitions between stages, with their gates. */
export function EdgeForm({ definition, onChange }: Props) {
  const names = definition.stages.map(({ name }) => name);
  const change = (index: number, part: Partial<Definition["edges"][number]>) =>
    onChange({ ...definition, edges: definition.edges.map((edge, at) => (at === index ? { ...edge, ...part } : edge)) });
  const end = (index: number, which: "from" | "to", value: string) => (
    <select aria-label={`${which === "from" ? "Source" : "Target"} of transition ${index + 1}`} value={value} onChange={(event) => change(index, { [which]: event.target.value })}>
      {names.map((name, at) => (
        <option key={at}>{name}</option>
      ))}
    </select>
  );
  return (
    <fieldset>
      <legend>Transitions</legend>
      {definition.edges.map((edge, index) => (
        <div key={index} className="stage-row">
          <div className="bar">
            {end(index, "from", edge.from)} → {end(index, "to", edge.to)}
            <span className="fill" />
            <button type="button" onClick={() => onChange({ ...definition, edges: definition.edges.filter((_, at) => at !== index) })}>
              Remove transition
            </button>
          </div>
          {edge.gates.map((gate, at) => (
            <GateForm
              key={at}
              gate={gate}
              onChange={(next) => change(index, { gates: edge.gates.with(at, next) })}
              onRemove={() => change(index, { gates: edge.gates.toSpliced(at, 1) })}
            />
          ))}
          <div>
            <button type="button" onClick={() => change(index, { gates: [...edge.gates, newRule(GATE_KINDS, `gate-${edge.gates.length + 1}`, "APPROVAL")] })}>
              Add gate
            </button>
          </div>
        </div>
      ))}
      <div>
        <button
          type="button"
          disabled={names.length < 2}
          onClick={() => onChange({ ...definition, edges: [...definition.edges, { from: names.at(-2) ?? "", to: names.at(-1) ?? "", gates: [] }] })}
        >
          Add transition
        </button>
      </div>
    </fieldset>
  );
}
