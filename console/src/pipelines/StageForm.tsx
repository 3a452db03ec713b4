import { useState } from "react";
import { Combobox } from "../ui/Combobox";
import { stepsOf, type Definition } from "./definition";
import { at, withAt } from "./gatekinds";
import { StepsForm } from "./StepsForm";
import { useFound } from "./services";

// Size of the list of choices; the installation may have more services.
const MAX_OFFERED = 100;

type Props = {
  readonly definition: Definition;
  /** Suggested services as `cluster/name`; there may be more. */
  readonly offered: readonly string[];
  readonly onChange: (next: Definition) => void;
};

/** Search field that adds a service which is not in the list. */
function AnotherService({ stage, onAdd }: { readonly stage: string; readonly onAdd: (name: string) => void }) {
  const [text, setText] = useState("");
  const found = useFound(text);
  const change = (next: string) => {
    const isMatch = found.includes(next);
    setText(isMatch ? "" : next);
    if (isMatch) onAdd(next);
  };
  return <Combobox label={`Add a service to ${stage}`} placeholder="search more services by name" value={text} offered={found} onChange={change} />;
}

type Stage = Definition["stages"][number];
type StageProps = { readonly stage: Stage; readonly onChange: (next: Stage) => void };

/** Workflow of a stage, which runs when its services are healthy. */
function Workflow({ stage, onChange }: StageProps) {
  if (stage["workflow"] === undefined)
    return (
      <div>
        <button type="button" onClick={() => onChange({ ...stage, workflow: { steps: [{ name: "wait", type: "WAIT", waitSeconds: 60 }] } })}>
          Add workflow
        </button>
      </div>
    );
  return (
    <fieldset>
      <legend>Workflow of {stage.name}</legend>
      <p className="quiet">Runs after the services are healthy. The stage is healthy when all steps have passed.</p>
      <StepsForm steps={stepsOf(stage["workflow"])} onChange={(steps) => onChange(withAt(stage, "workflow.steps", steps))} />
      <div>
        <button type="button" onClick={() => onChange(withAt(stage, "workflow", undefined))}>
          Remove workflow
        </button>
      </div>
    </fieldset>
  );
}

const SILENCE = [
  { path: "rollout.silentDeadlineSeconds", label: "Seconds until a wave goes on without silent clusters", usual: 1800, max: 2_592_000 },
  { path: "rollout.maxSilentPercent", label: "Largest share of services left out, in percent", usual: 50, max: 100 },
] as const;

/** What a rollout does about clusters whose agent is silent. An empty field has the default. */
function SilentClusters({ stage, onChange }: StageProps) {
  return (
    <div className="two">
      {SILENCE.map(({ path, label, usual, max }) => {
        const value = at(stage, path);
        return (
          <label key={path}>
            {label}
            <input
              type="number"
              min={0}
              max={max}
              placeholder={String(usual)}
              value={typeof value === "number" ? value : ""}
              onChange={(event) => onChange(withAt(stage, path, event.target.value === "" ? undefined : Number(event.target.value)))}
            />
          </label>
        );
      })}
    </div>
  );
}

/** Stages of a pipeline, with their services. */
export function StageForm({ definition, offered, onChange }: Props) {
  const change = (index: number, part: Partial<Definition["stages"][number]>) =>
    onChange({ ...definition, stages: definition.stages.map((stage, place) => (place === index ? { ...stage, ...part } : stage)) });
  return (
    <fieldset>
      <legend>Stages</legend>
      {definition.stages.map((stage, index) => (
        <div key={index} className="stage-row">
          <div className="bar">
            <input aria-label={`Name of stage ${index + 1}`} value={stage.name} onChange={(event) => change(index, { name: event.target.value })} />
            <button type="button" onClick={() => onChange({ ...definition, stages: definition.stages.filter((_, place) => place !== index) })}>
              Remove stage
            </button>
          </div>
          <select
            multiple
            size={Math.min(6, Math.max(2, offered.length))}
            aria-label={`Services of ${stage.name || `stage ${index + 1}`}`}
            value={[...stage.services]}
            onChange={(event) => change(index, { services: [...event.target.selectedOptions].map(({ value }) => value) })}
          >
            {[...new Set([...stage.services, ...offered])].map((name) => (
              <option key={name} value={name}>
                {name}
              </option>
            ))}
          </select>
          {offered.length >= MAX_OFFERED && <AnotherService stage={stage.name} onAdd={(name) => change(index, { services: [...stage.services, name] })} />}
          <SilentClusters stage={stage} onChange={(next) => onChange({ ...definition, stages: definition.stages.with(index, next) })} />
          <Workflow stage={stage} onChange={(next) => onChange({ ...definition, stages: definition.stages.with(index, next) })} />
        </div>
      ))}
      <div>
        <button type="button" onClick={() => onChange({ ...definition, stages: [...definition.stages, { name: `stage-${definition.stages.length + 1}`, services: [] }] })}>
          Add stage
        </button>
      </div>
    </fieldset>
  );
}
