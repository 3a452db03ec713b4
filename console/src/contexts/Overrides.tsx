import { useMemo, useState } from "react";
import { useMutation, useQuery } from "urql";
import { ContextOverridesDocument, LayerDocument, LayersDocument, OverrideContextDocument, type ContextLayer, type ContextOverridesQuery } from "../api/generated";
import { judged } from "../text/judge";
import { toYaml } from "../text/yaml";
import { Age } from "../ui/Age";
import { Code } from "../ui/Code";
import { FormBar } from "../ui/FormBar";
import { Problem } from "../ui/Problem";
import { Skeleton } from "../ui/Skeleton";
import { Suggested } from "../ui/Suggested";
import { Table } from "../ui/Table";
import { toast } from "../ui/toast";

type Override = ContextOverridesQuery["contextOverrides"][number];
type Place = { readonly layer: ContextLayer; readonly id: string; readonly title: string };

/** Places whose services may find other values, by a part of their names; the widest first. */
function usePlaces(q: string): readonly Place[] {
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

/** A place of an override, by its name; by its id where there is none any more. */
function usePlace({ layer, placeId }: Override): Place {
  const variables = { id: placeId, isProject: layer === "PROJECT", isGroup: layer === "GROUP", isCluster: layer === "CLUSTER" };
  const [{ data }] = useQuery({ query: LayerDocument, variables });
  const name = data?.project?.name ?? data?.clusterGroup?.name ?? data?.cluster?.handle ?? placeId;
  return { layer, id: placeId, title: `${layer.toLowerCase()} ${name}` };
}

/** Choosing a place: what is typed is looked up, what is chosen counts. */
function PlaceField({ onChoose }: { readonly onChoose: (place: Place) => void }) {
  const [text, setText] = useState("");
  const places = usePlaces(text.trim().replace(/^(project|group|cluster) /, ""));
  const change = (next: string) => {
    setText(next);
    const found = places.find(({ title }) => title === next);
    if (found !== undefined) onChoose(found);
  };
  return <Suggested label="Where it is otherwise" placeholder="a project, group or cluster, by its name" value={text} offered={places.map(({ title }) => title)} onChange={change} />;
}

function Row({ override, onEdit }: { readonly override: Override; readonly onEdit: (place: Place) => void }) {
  const place = usePlace(override);
  return (
    <tr>
      <td>{place.title}</td>
      <td className="wide">
        <code>{toYaml(override.configuration).trim()}</code>
      </td>
      <td>{override.actor}</td>
      <td>
        <Age at={override.updatedAt} />
      </td>
      <td>
        <button type="button" onClick={() => onEdit(place)}>
          Edit
        </button>
      </td>
    </tr>
  );
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
  const [place, choose] = useState<Place | null>(null);
  if (error !== undefined && data == null) return <Problem error={error} />;
  if (data == null) return <Skeleton lines={3} />;
  const done = () => {
    choose(null);
    again({ requestPolicy: "network-only" });
  };
  return (
    <section className="stack" aria-label="Otherwise">
      <div className="bar">
        <h2>Otherwise in</h2>
        <PlaceField key={place?.id} onChoose={choose} />
      </div>
      {place !== null && <Edit key={place.id} contextId={contextId} place={place} before={data.contextOverrides.find(({ placeId }) => placeId === place.id)} onDone={done} />}
      {data.contextOverrides.length > 0 && (
        <Table label="Overrides" titles={["Where", "Values", "By", "Since", ""]}>
          {data.contextOverrides.map((one) => (
            <Row key={one.id} override={one} onEdit={choose} />
          ))}
        </Table>
      )}
    </section>
  );
}
