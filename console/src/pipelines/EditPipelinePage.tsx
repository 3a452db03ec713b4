import { useState } from "react";
import { useMutation, useQuery } from "urql";
import { Link, useLocation, useParams } from "wouter";
import { PipelineDefinitionDocument, SavePipelineDocument, ServiceChoicesDocument, type PipelineDefinitionFragment } from "../api/generated";
import { judged } from "../text/judge";
import { toYaml } from "../text/yaml";
import { Code } from "../ui/Code";
import { FormBar } from "../ui/FormBar";
import { Problem } from "../ui/Problem";
import { Skeleton } from "../ui/Skeleton";
import { Suggested } from "../ui/Suggested";
import { toast } from "../ui/toast";
import { attributesOf, complaints, definitionOf, written, type Choice, type Definition } from "./definition";
import { begunGate, GateForm } from "./GateForm";
import { useFound, useServices } from "./services";
import "./pipelines.css";

// As many as the list of choices holds: there may be more.
const MOST_OFFERED = 100;
const BEGUN = `stages:
  - name: dev
    services: []
  - name: prod
    services: []
edges:
  - from: dev
    to: prod
    gates:
      - name: sign-off
        type: APPROVAL
        quorum: 1
`;

type FormProps = {
  readonly definition: Definition;
  /** What is offered, as `cluster/name`; there may be more. */
  readonly offered: readonly string[];
  readonly onChange: (next: Definition) => void;
};

/** Adds a service that is not among those that are offered, by a part of its name. */
function AnotherService({ stage, onAdd }: { readonly stage: string; readonly onAdd: (name: string) => void }) {
  const [text, setText] = useState("");
  const found = useFound(text);
  const change = (next: string) => {
    const isOne = found.includes(next);
    setText(isOne ? "" : next);
    if (isOne) onAdd(next);
  };
  return <Suggested label={`Another service of ${stage}`} placeholder="another one, by a part of its name" value={text} offered={found} onChange={change} />;
}

function StageForm({ definition, offered, onChange }: FormProps) {
  const change = (index: number, part: Partial<Definition["stages"][number]>) =>
    onChange({ ...definition, stages: definition.stages.map((one, at) => (at === index ? { ...one, ...part } : one)) });
  return (
    <fieldset>
      <legend>Stages</legend>
      {definition.stages.map((stage, index) => (
        <div key={index} className="stage-row">
          <div className="bar">
            <input aria-label={`Name of stage ${index + 1}`} value={stage.name} onChange={(event) => change(index, { name: event.target.value })} />
            <button type="button" onClick={() => onChange({ ...definition, stages: definition.stages.filter((_, at) => at !== index) })}>
              Remove
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
          {offered.length >= MOST_OFFERED && <AnotherService stage={stage.name} onAdd={(name) => change(index, { services: [...stage.services, name] })} />}
        </div>
      ))}
      <div>
        <button type="button" onClick={() => onChange({ ...definition, stages: [...definition.stages, { name: `stage-${definition.stages.length + 1}`, services: [] }] })}>
          Add a stage
        </button>
      </div>
    </fieldset>
  );
}

function EdgeForm({ definition, onChange }: FormProps) {
  const names = definition.stages.map(({ name }) => name);
  const change = (index: number, part: Partial<Definition["edges"][number]>) =>
    onChange({ ...definition, edges: definition.edges.map((one, at) => (at === index ? { ...one, ...part } : one)) });
  const end = (index: number, which: "from" | "to", value: string) => (
    <select aria-label={`${which} of way ${index + 1}`} value={value} onChange={(event) => change(index, { [which]: event.target.value })}>
      {names.map((name, at) => (
        <option key={at}>{name}</option>
      ))}
    </select>
  );
  return (
    <fieldset>
      <legend>Ways between them</legend>
      {definition.edges.map((edge, index) => (
        <div key={index} className="stage-row">
          <div className="bar">
            {end(index, "from", edge.from)} → {end(index, "to", edge.to)}
            <span className="fill" />
            <button type="button" onClick={() => onChange({ ...definition, edges: definition.edges.filter((_, at) => at !== index) })}>
              Remove
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
            <button type="button" onClick={() => change(index, { gates: [...edge.gates, begunGate(`gate-${edge.gates.length + 1}`, "APPROVAL")] })}>
              Add a gate
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
          Add a way
        </button>
      </div>
    </fieldset>
  );
}

function Editor({ pipeline, offered }: { readonly pipeline: PipelineDefinitionFragment | null; readonly offered: readonly Choice[] }) {
  const [name, setName] = useState(pipeline?.name ?? "");
  const [text, setText] = useState(() => (pipeline === null ? BEGUN : written(pipeline)));
  const [{ error, fetching }, save] = useMutation(SavePipelineDocument);
  const [, go] = useLocation();
  const { value, problem } = judged(text);
  const definition = definitionOf(value);
  const services = useServices(
    definition.stages.flatMap(({ services: named }) => named),
    offered,
  );
  const names = offered.map(({ name: one }) => one);
  const wrong = [...(name === "" ? ["give it a name"] : []), ...(problem === "" ? complaints(definition, services) : [problem])];
  const submit = async () => {
    const result = await save({ name, attributes: attributesOf(definition, services) });
    if (result.error !== undefined || result.data?.savePipeline == null) return;
    toast(`${name} is saved.`);
    go(`/pipelines/${result.data.savePipeline.id}`);
  };
  const change = (next: Definition) => setText(toYaml(next));
  return (
    <>
      <div className="bar">
        <label>
          Name <input value={name} readOnly={pipeline !== null} onChange={(event) => setName(event.target.value)} required maxLength={255} />
        </label>
      </div>
      <div className="editor-pair">
        <form className="form" onSubmit={(event) => event.preventDefault()}>
          <StageForm definition={definition} offered={names} onChange={change} />
          <EdgeForm definition={definition} offered={names} onChange={change} />
        </form>
        <div className="stack beside">
          <Code text={text} label="The pipeline as YAML" onChange={setText} />
          <FormBar
            action="Save"
            busy={fetching}
            complaints={wrong}
            error={error}
            onAction={() => void submit()}
            onCancel={() => go(pipeline === null ? "/pipelines" : `/pipelines/${pipeline.id}`)}
          />
        </div>
      </div>
    </>
  );
}

/** A pipeline as a form and as YAML side by side: a change of one shows in the other. */
export function EditPipelinePage() {
  const { id } = useParams<{ id?: string }>();
  const [known] = useQuery({ query: PipelineDefinitionDocument, variables: { id: id ?? "" }, pause: id === undefined });
  const [choices] = useQuery({ query: ServiceChoicesDocument });
  const error = known.error ?? choices.error;
  if (error !== undefined) return <Problem error={error} />;
  if (choices.data == null || (id !== undefined && known.data == null)) return <Skeleton lines={10} />;
  const offered = choices.data.serviceDeployments.edges.map(({ node }) => ({ id: node.id, name: `${node.cluster?.handle ?? ""}/${node.name}` }));
  return (
    <>
      <p className="crumbs">
        <Link href="/pipelines">Pipelines</Link>
      </p>
      <div className="bar">
        <h1>{id === undefined ? "New pipeline" : "Change a pipeline"}</h1>
      </div>
      <Editor pipeline={known.data?.pipeline ?? null} offered={offered} />
    </>
  );
}
