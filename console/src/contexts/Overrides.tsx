import { useMemo, useState } from "react";
import { useMutation, useQuery } from "urql";
import { ContextOverridesDocument, LayersDocument, OverrideContextDocument, type ContextLayer, type ContextOverridesQuery } from "../api/generated";
import { judged } from "../text/judge";
import { toYaml } from "../text/yaml";
import { Age } from "../ui/Age";
import { Code } from "../ui/Code";
import { FormBar } from "../ui/FormBar";
import { Problem } from "../ui/Problem";
import { Skeleton } from "../ui/Skeleton";
import { Table } from "../ui/Table";
import { toast } from "../ui/toast";

type Override = ContextOverridesQuery["contextOverrides"][number];
type Place = { readonly layer: ContextLayer; readonly id: string; readonly title: string };

/** Every place whose services may find other values, the widest first. */
function usePlaces(): readonly Place[] {
  const [{ data }] = useQuery({ query: LayersDocument });
  return useMemo(() => {
    if (data == null) return [];
    return [
      ...data.projects.edges.map(({ node }) => ({ layer: "PROJECT" as const, id: node.id, title: `project ${node.name}` })),
      ...data.clusterGroups.edges.map(({ node }) => ({ layer: "GROUP" as const, id: node.id, title: `group ${node.name}` })),
      ...data.clusters.edges.map(({ node }) => ({ layer: "CLUSTER" as const, id: node.id, title: `cluster ${node.handle}` })),
    ];
  }, [data]);
}

type EditProps = { readonly contextId: string; readonly place: Place; readonly before: Override | undefined; readonly onDone: () => void };

function Edit({ contextId, place, before, onDone }: EditProps) {
  const [text, setText] = useState(() => (before === undefined ? "" : toYaml(before.configuration)));
  const [{ error, fetching }, save] = useMutation(OverrideContextDocument);
  const { value, problem } = judged(text);
  const submit = async () => {
    const result = await save({ id: contextId, layer: place.layer, placeId: place.id, configuration: JSON.stringify(value) });
    if (result.error !== undefined) return;
    toast(Object.keys(value).length === 0 ? `${place.title} has nothing of its own any more.` : `Services of ${place.title} find these values.`);
    onDone();
  };
  return (
    <section className="card stack">
      <h2>What {place.title} has otherwise</h2>
      {before !== undefined && (
        <p className="quiet">
          <code>{"{}"}</code> alone takes all of it back.
        </p>
      )}
      <Code text={text} label="Values that differ here, as YAML" onChange={setText} />
      <FormBar action="Save" busy={fetching} complaints={problem === "" ? [] : [problem]} error={error} onAction={() => void submit()} onCancel={onDone} />
    </section>
  );
}

/** Where a context says something else: for a project, a group of clusters, a cluster; the narrowest counts. */
export function Overrides({ contextId }: { readonly contextId: string }) {
  const [{ data, error }, again] = useQuery({ query: ContextOverridesDocument, variables: { id: contextId } });
  const places = usePlaces();
  const [chosen, choose] = useState("");
  if (error !== undefined && data == null) return <Problem error={error} />;
  if (data == null) return <Skeleton lines={3} />;
  const place = places.find(({ id }) => id === chosen);
  const titleOf = ({ layer, placeId }: Override) => places.find(({ id }) => id === placeId)?.title ?? `${layer.toLowerCase()} ${placeId}`;
  const done = () => {
    choose("");
    again({ requestPolicy: "network-only" });
  };
  return (
    <section className="stack" aria-label="Otherwise">
      <div className="bar">
        <h2>Otherwise in</h2>
        <select aria-label="Where it is otherwise" value={chosen} onChange={(event) => choose(event.target.value)}>
          <option value="">choose a place to say something else there</option>
          {places.map(({ id, title }) => (
            <option key={id} value={id}>
              {title}
            </option>
          ))}
        </select>
      </div>
      {place !== undefined && <Edit key={place.id} contextId={contextId} place={place} before={data.contextOverrides.find(({ placeId }) => placeId === place.id)} onDone={done} />}
      {data.contextOverrides.length > 0 && (
        <Table label="Overrides" titles={["Where", "Values", "By", "Since", ""]}>
          {data.contextOverrides.map((one) => (
            <tr key={one.id}>
              <td>{titleOf(one)}</td>
              <td className="wide">
                <code>{toYaml(one.configuration).trim()}</code>
              </td>
              <td>{one.actor}</td>
              <td>
                <Age at={one.updatedAt} />
              </td>
              <td>
                <button type="button" onClick={() => choose(one.placeId)}>
                  Edit
                </button>
              </td>
            </tr>
          ))}
        </Table>
      )}
    </section>
  );
}
