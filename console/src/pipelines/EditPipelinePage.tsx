import { useState } from "react";
import { useMutation, useQuery } from "urql";
import { Link, useLocation, useParams } from "wouter";
import { PipelineDocument, SavePipelineDocument, ServiceChoicesDocument, type GateType, type PipelineBoardFragment } from "../api/generated";
import { judged } from "../text/judge";
import { toYaml } from "../text/yaml";
import { Code } from "../ui/Code";
import { Problem } from "../ui/Problem";
import { Skeleton } from "../ui/Skeleton";
import { toast } from "../ui/toast";
import { attributesOf, complaints, definitionOf, written, type Choice, type Definition } from "./definition";
import "./pipelines.css";

const TYPES: readonly GateType[] = ["APPROVAL", "SOAK"];
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

type FormProps = { readonly definition: Definition; readonly services: readonly Choice[]; readonly onChange: (next: Definition) => void };

function StageForm({ definition, services, onChange }: FormProps) {
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
            size={Math.min(6, Math.max(2, services.length))}
            aria-label={`Services of ${stage.name || `stage ${index + 1}`}`}
            value={[...stage.services]}
            onChange={(event) => change(index, { services: [...event.target.selectedOptions].map(({ value }) => value) })}
          >
            {services.map(({ id, name }) => (
              <option key={id} value={name}>
                {name}
              </option>
            ))}
          </select>
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
        <div key={index} className="bar">
          {end(index, "from", edge.from)} → {end(index, "to", edge.to)}
          <span className="quiet">{edge.gates.map(({ name, type }) => `${name} (${type.toLowerCase()})`).join(", ") || "no gate"}</span>
          <button type="button" onClick={() => change(index, { gates: [...edge.gates, { name: `sign-off-${edge.gates.length + 1}`, type: "APPROVAL", quorum: 1 }] })}>
            Add an approval
          </button>
          <button type="button" onClick={() => change(index, { gates: [...edge.gates, { name: `soak-${edge.gates.length + 1}`, type: "SOAK", soakSeconds: 600 }] })}>
            Add a soak
          </button>
          <button type="button" onClick={() => onChange({ ...definition, edges: definition.edges.filter((_, at) => at !== index) })}>
            Remove
          </button>
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

function Editor({ pipeline, services }: { readonly pipeline: PipelineBoardFragment | null; readonly services: readonly Choice[] }) {
  const [name, setName] = useState(pipeline?.name ?? "");
  const [text, setText] = useState(() => (pipeline === null ? BEGUN : written(pipeline)));
  const [{ error, fetching }, save] = useMutation(SavePipelineDocument);
  const [, go] = useLocation();
  const { value, problem } = judged(text);
  const definition = definitionOf(value);
  const wrong = problem === "" ? complaints(definition, services, TYPES) : [problem];
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
        <span className="fill" />
        <button type="button" className="primary" disabled={fetching || name === "" || wrong.length > 0} onClick={() => void submit()}>
          Save
        </button>
      </div>
      {error !== undefined && <Problem error={error} />}
      <div className="editor-pair">
        <form className="form" onSubmit={(event) => event.preventDefault()}>
          <StageForm definition={definition} services={services} onChange={change} />
          <EdgeForm definition={definition} services={services} onChange={change} />
        </form>
        <div>
          <Code text={text} label="The pipeline as YAML" onChange={setText} />
          <ul className="complaints" aria-live="polite">
            {wrong.map((one) => (
              <li key={one}>✕ {one}</li>
            ))}
          </ul>
        </div>
      </div>
    </>
  );
}

/** A pipeline as a form and as YAML side by side: a change of one shows in the other. */
export function EditPipelinePage() {
  const { id } = useParams<{ id?: string }>();
  const [known] = useQuery({ query: PipelineDocument, variables: { id: id ?? "" }, pause: id === undefined });
  const [choices] = useQuery({ query: ServiceChoicesDocument });
  const error = known.error ?? choices.error;
  if (error !== undefined) return <Problem error={error} />;
  if (choices.data == null || (id !== undefined && known.data == null)) return <Skeleton lines={10} />;
  const services = choices.data.serviceDeployments.edges.map(({ node }) => ({ id: node.id, name: `${node.cluster?.handle ?? ""}/${node.name}` }));
  return (
    <>
      <p className="crumbs">
        <Link href="/pipelines">Pipelines</Link>
      </p>
      <div className="bar">
        <h1>{id === undefined ? "New pipeline" : "Change a pipeline"}</h1>
      </div>
      <Editor pipeline={known.data?.pipeline ?? null} services={services} />
    </>
  );
}
