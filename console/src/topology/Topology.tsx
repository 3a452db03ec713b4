import { useMemo, useState } from "react";
import { useQuery } from "urql";
import { ObjectRelationsDocument } from "../api/generated";
import { useRefetch } from "../live/useRefetch";
import type { Service } from "../services/service";
import { counted } from "../text/counts";
import { Problem } from "../ui/Problem";
import { Skeleton } from "../ui/Skeleton";
import { useParam } from "../ui/useParam";
import { Board } from "./Board";
import { Details } from "./Details";
import { graphOf, matching, type EdgeKind, type Relation } from "./graph";
import { layOut } from "./layout";
import "./topology.css";

const KINDS: readonly (readonly [Exclude<EdgeKind, "OWNER">, string])[] = [
  ["NETWORK", "Network"],
  ["CONFIGURATION", "Configuration"],
  ["CONTROL", "Control"],
  ["PERMISSION", "Permissions"],
];
const NONE: readonly Relation[] = [];

const toggled = <Value,>(set: ReadonlySet<Value>, value: Value): ReadonlySet<Value> => {
  const next = new Set(set);
  if (!next.delete(value)) next.add(value);
  return next;
};

/** Topology of a service: owners, network, configuration, control and permissions, live. */
export function Topology({ service }: { readonly service: Service }) {
  // The page of the service asks for them, together with the service.
  const [{ data, error }, refetch] = useQuery({ query: ObjectRelationsDocument, variables: { id: service.id }, requestPolicy: "cache-first" });
  useRefetch(refetch, service.digest ?? "", service.id);
  const [hidden, hide] = useState<ReadonlySet<EdgeKind>>(new Set(["PERMISSION"]));
  const [opened, open] = useState<ReadonlySet<string>>(new Set());
  const [folded, fold] = useState<ReadonlySet<string>>(new Set());
  const [text, setText] = useState("");
  const [problemsOnly, setProblemsOnly] = useState(false);
  const [selected, select] = useParam("object");
  const relations = data?.objectRelations ?? NONE;
  const shown = useMemo(() => new Set<EdgeKind>(["OWNER", ...KINDS.map(([kind]) => kind).filter((kind) => !hidden.has(kind))]), [hidden]);
  const graph = useMemo(() => graphOf(service.components, relations, shown, opened, folded), [service.components, relations, shown, opened, folded]);
  const layout = useMemo(() => layOut(graph), [graph]);
  const lit = useMemo(() => (text.trim() === "" && !problemsOnly ? null : matching(graph, text, problemsOnly)), [graph, text, problemsOnly]);
  if (service.components.length === 0) return <p className="quiet">No objects in the cluster yet.</p>;
  if (data === undefined && error === undefined) return <Skeleton lines={10} />;
  const vertex = graph.vertices.find(({ id }) => id === selected);
  const onFold = (id: string) => (graph.vertices.find((one) => one.id === id)?.owned === null ? open(toggled(opened, id)) : fold(toggled(folded, id)));
  return (
    <div className="stack">
      <div className="bar">
        <input type="search" aria-label="Filter objects" placeholder="Filter objects" value={text} onChange={(event) => setText(event.target.value)} />
        <label className="check">
          <input type="checkbox" checked={problemsOnly} onChange={(event) => setProblemsOnly(event.target.checked)} /> Not healthy or out of sync
        </label>
        <span className="fill" />
        <fieldset className="topology-legend">
          <legend className="hidden-text">References</legend>
          {KINDS.map(([kind, title]) => (
            <label key={kind} className="check">
              <input type="checkbox" checked={!hidden.has(kind)} onChange={() => hide(toggled(hidden, kind))} />
              <span className={`edge-sample ${kind.toLowerCase()}`} aria-hidden="true" /> {title}
            </label>
          ))}
        </fieldset>
        <span className="quiet" role="status">
          {lit === null ? counted(service.components.length, "object") : `${lit.size.toLocaleString()} shown`}
        </span>
      </div>
      {error !== undefined && <Problem error={error} />}
      <div className={vertex === undefined ? "topology" : "topology with-details"}>
        <Board label="Objects" graph={graph} layout={layout} lit={lit} selected={selected} onSelect={select} onFold={onFold} />
        {vertex !== undefined && <Details vertex={vertex} service={service} onClose={() => select("")} />}
      </div>
    </div>
  );
}
