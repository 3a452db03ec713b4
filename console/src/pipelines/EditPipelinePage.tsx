import { useState } from "react";
import { useMutation, useQuery } from "urql";
import { Link, useLocation, useParams } from "wouter";
import { PipelineDefinitionDocument, SavePipelineDocument, ServiceChoicesDocument, type PipelineDefinitionFragment } from "../api/generated";
import { parseMapping } from "../text/parseMapping";
import { toYaml } from "../text/yaml";
import { Code } from "../ui/Code";
import { FormBar } from "../ui/FormBar";
import { ResourceError } from "../ui/ResourceNotFound";
import { Skeleton } from "../ui/Skeleton";
import { toast } from "../ui/toast";
import { attributesOf, complaints, definitionOf, written, type Choice, type Definition } from "./definition";
import { Actions } from "../manage/Actions";
import { EdgeForm } from "./EdgeForm";
import { useServices } from "./services";
import { StageForm } from "./StageForm";
import { WHAT_IF } from "./whatIf";
import "./pipelines.css";

const INITIAL = `stages:
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

function Editor({ pipeline, offered }: { readonly pipeline: PipelineDefinitionFragment | null; readonly offered: readonly Choice[] }) {
  const [name, setName] = useState(pipeline?.name ?? "");
  const [text, setText] = useState(() => (pipeline === null ? INITIAL : written(pipeline)));
  const [{ error, fetching }, save] = useMutation(SavePipelineDocument);
  const [, go] = useLocation();
  const { value, problem } = parseMapping(text);
  const definition = definitionOf(value);
  const services = useServices(
    definition.stages.flatMap(({ services: named }) => named),
    offered,
  );
  const names = offered.map(({ name: title }) => title);
  const wrong = [...(name === "" ? ["name is required"] : []), ...(problem === "" ? complaints(definition, services) : [problem])];
  const submit = async () => {
    const result = await save({ name, attributes: attributesOf(definition, services) });
    if (result.error !== undefined || result.data?.savePipeline == null) return;
    toast(`Pipeline ${name} saved`);
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
          <EdgeForm definition={definition} onChange={change} />
        </form>
        <div className="stack beside">
          <Code text={text} label="Pipeline as YAML" onChange={setText} />
          <FormBar
            action="Save"
            busy={fetching}
            complaints={wrong}
            error={error}
            onAction={() => void submit()}
            onCancel={() => go(pipeline === null ? "/pipelines" : `/pipelines/${pipeline.id}`)}
          >
            {pipeline !== null && wrong.length === 0 && <Actions actions={[WHAT_IF]} node={{ id: pipeline.id, attributes: attributesOf(definition, services) }} />}
          </FormBar>
        </div>
      </div>
    </>
  );
}

/** Editor of a pipeline: a form and YAML, kept in sync. */
export function EditPipelinePage() {
  const { id } = useParams<{ id?: string }>();
  const [known] = useQuery({ query: PipelineDefinitionDocument, variables: { id: id ?? "" }, pause: id === undefined });
  const [choices] = useQuery({ query: ServiceChoicesDocument });
  const error = known.error ?? choices.error;
  if (error !== undefined) return <ResourceError error={error} kind="pipeline" />;
  if (choices.data == null || (id !== undefined && known.data == null)) return <Skeleton lines={10} />;
  const offered = choices.data.serviceDeployments.edges.map(({ node }) => ({ id: node.id, name: `${node.cluster?.handle ?? ""}/${node.name}` }));
  return (
    <>
      <p className="crumbs">
        <Link href="/pipelines">Pipelines</Link>
      </p>
      <div className="bar">
        <h1>{id === undefined ? "New pipeline" : "Edit pipeline"}</h1>
      </div>
      <Editor pipeline={known.data?.pipeline ?? null} offered={offered} />
    </>
  );
}
