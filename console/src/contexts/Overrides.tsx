import { useMemo, useState } from "react";
import { useMutation, useQuery } from "urql";
import { ContextOverridesDocument, LayerDocument, LayersDocument, OverrideContextDocument, type ContextLayer, type ContextOverridesQuery } from "../api/generated";
import { parseMapping } from "../text/parseMapping";
import { toYaml } from "../text/yaml";
import { Age } from "../ui/Age";
import { Code } from "../ui/Code";
import { FormBar } from "../ui/FormBar";
import { Problem } from "../ui/Problem";
import { Skeleton } from "../ui/Skeleton";
import { Combobox } from "../ui/Combobox";
import { Table } from "../ui/Table";
import { toast } from "../ui/toast";

type Override = ContextOverridesQuery["contextOverrides"][number];
type Scope = { readonly layer: ContextLayer; readonly id: string; readonly title: string };

/** Projects, groups and clusters whose name contains a text; the widest scope first. */
function useScopes(q: string): readonly Scope[] {
  const [{ data }] = useQuery({ query: LayersDocument, variables: { q } });
  return useMemo(() => {
    if (data == null) return [];
    return [
      ...data.projects.edges.map(({ node }) => ({ layer: "PROJECT" as const, id: node.id, title: `project ${node.name}` })),
      ...data.clusterGroups.edges.map(({ node }) => ({ layer: "GROUP" as const, id: node.id, title: `group ${node.name}` })),
      ...data.clusters.edges.map(({ node }) => ({ layer: "CLUSTER" as const, id: node.id, title: `cluster ${node.handle}` })),
    ];
  }, [data]);
}

/** Name of an override's scope; its id if the scope was deleted. */
function useScope({ layer, placeId }: Override): Scope {
  const variables = { id: placeId, isProject: layer === "PROJECT", isGroup: layer === "GROUP", isCluster: layer === "CLUSTER" };
  const [{ data }] = useQuery({ query: LayerDocument, variables });
  const name = data?.project?.name ?? data?.clusterGroup?.name ?? data?.cluster?.handle ?? placeId;
  return { layer, id: placeId, title: `${layer.toLowerCase()} ${name}` };
}

/** Search field for a scope; choosing a suggestion selects it. */
function ScopeField({ onChoose }: { readonly onChoose: (scope: Scope) => void }) {
  const [text, setText] = useState("");
  const scopes = useScopes(text.trim().replace(/^(project|group|cluster) /, ""));
  const change = (next: string) => {
    setText(next);
    const found = scopes.find(({ title }) => title === next);
    if (found !== undefined) onChoose(found);
  };
  return <Combobox label="Override scope" placeholder="name of a project, group or cluster" value={text} offered={scopes.map(({ title }) => title)} onChange={change} />;
}

function Row({ override, onEdit }: { readonly override: Override; readonly onEdit: (scope: Scope) => void }) {
  const scope = useScope(override);
  return (
    <tr>
      <td>{scope.title}</td>
      <td className="wide">
        <code>{toYaml(override.configuration).trim()}</code>
      </td>
      <td>{override.actor}</td>
      <td>
        <Age at={override.updatedAt} />
      </td>
      <td>
        <button type="button" onClick={() => onEdit(scope)}>
          Edit
        </button>
      </td>
    </tr>
  );
}

type EditProps = { readonly contextId: string; readonly scope: Scope; readonly before: Override | undefined; readonly onDone: () => void };

function Edit({ contextId, scope, before, onDone }: EditProps) {
  const [text, setText] = useState(() => (before === undefined ? "" : toYaml(before.configuration)));
  const [{ error, fetching }, save] = useMutation(OverrideContextDocument);
  const { value, problem } = parseMapping(text);
  const submit = async () => {
    const result = await save({ id: contextId, layer: scope.layer, placeId: scope.id, configuration: JSON.stringify(value) });
    if (result.error !== undefined) return;
    toast(Object.keys(value).length === 0 ? `Overrides of ${scope.title} removed` : `Overrides of ${scope.title} saved`);
    onDone();
  };
  return (
    <section className="card stack">
      <h2>Overrides for {scope.title}</h2>
      {before !== undefined && (
        <p className="quiet">
          <code>{"{}"}</code> removes all overrides.
        </p>
      )}
      <Code text={text} label="Overrides as YAML" onChange={setText} />
      <FormBar action="Save" busy={fetching} complaints={problem === "" ? [] : [problem]} error={error} onAction={() => void submit()} onCancel={onDone} />
    </section>
  );
}

/** Overrides of a context for projects, groups and clusters; the narrowest scope wins. */
export function Overrides({ contextId }: { readonly contextId: string }) {
  const [{ data, error }, refetch] = useQuery({ query: ContextOverridesDocument, variables: { id: contextId } });
  const [scope, choose] = useState<Scope | null>(null);
  if (error !== undefined && data == null) return <Problem error={error} />;
  if (data == null) return <Skeleton lines={3} />;
  const done = () => {
    choose(null);
    refetch({ requestPolicy: "network-only" });
  };
  return (
    <section className="stack" aria-label="Values by scope">
      <div className="bar">
        <h2>Overrides</h2>
        <ScopeField key={scope?.id} onChoose={choose} />
      </div>
      {scope !== null && <Edit key={scope.id} contextId={contextId} scope={scope} before={data.contextOverrides.find(({ placeId }) => placeId === scope.id)} onDone={done} />}
      {data.contextOverrides.length > 0 && (
        <Table label="Overrides" titles={["Scope", "Values", "Changed by", "Changed", ""]}>
          {data.contextOverrides.map((override) => (
            <Row key={override.id} override={override} onEdit={choose} />
          ))}
        </Table>
      )}
    </section>
  );
}
