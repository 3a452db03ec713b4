import { X } from "lucide-react";
import { useMemo, useState } from "react";
import { useQuery, useSubscription } from "urql";
import { Link } from "wouter";
import { ServiceDeltaDocument, ServiceGraphDocument, type ServiceGraphQuery } from "../api/generated";
import { counted } from "../text/counts";
import { Board } from "../topology/Board";
import { layOut } from "../topology/layout";
import { Empty } from "../ui/Empty";
import { Problem } from "../ui/Problem";
import { Skeleton } from "../ui/Skeleton";
import { serviceState } from "../ui/states";
import { Status } from "../ui/Status";
import { useParam } from "../ui/useParam";
import { graphOfServices, litServices, relatedTo, type Related } from "./serviceGraph";

type Found = ServiceGraphQuery["serviceGraph"];

const NEIGHBOURS = [
  ["Imports values of", "IMPORT", "sourceId"],
  ["Exports values to", "IMPORT", "targetId"],
  ["Waits for", "DEPENDENCY", "sourceId"],
  ["Is needed by", "DEPENDENCY", "targetId"],
] as const;

function Neighbours({ title, related, onSelect }: { readonly title: string; readonly related: readonly Related[]; readonly onSelect: (id: string) => void }) {
  if (related.length === 0) return null;
  return (
    <section>
      <h3>{title}</h3>
      <ul className="topology-members">
        {related.map(({ service: { id, name, cluster, status, commitsBehind }, values }) => (
          <li key={id}>
            <span>
              <button type="button" className="link" onClick={() => onSelect(id)}>
                {cluster?.handle}/{name}
              </button>{" "}
              <span className="quiet">{values.join(", ")}</span>
            </span>
            <Status state={serviceState(status, commitsBehind)} />
          </li>
        ))}
      </ul>
    </section>
  );
}

type DetailsProps = { readonly id: string; readonly found: Found; readonly onSelect: (id: string) => void };

/** Details of the selected service: its state, and the services around it as text. */
function ServiceDetails({ id, found, onSelect }: DetailsProps) {
  const service = found.services.find((one) => one.id === id);
  if (service === undefined) return null;
  return (
    <aside className="topology-details card stack" aria-label="Selected service">
      <div className="topology-title">
        <div>
          <p className="quiet">{service.cluster?.handle}</p>
          <h2>{service.name}</h2>
        </div>
        <button type="button" className="plain" onClick={() => onSelect("")} title="Close">
          <X size={16} aria-hidden="true" />
          <span className="hidden-text">Close details</span>
        </button>
      </div>
      <p>
        <Status state={serviceState(service.status, service.commitsBehind)} pill />
      </p>
      {NEIGHBOURS.map(([title, kind, end]) => (
        <Neighbours key={title} title={title} related={relatedTo(id, found, kind, end)} onSelect={onSelect} />
      ))}
      <p className="topology-links">
        <Link className="button" href={`/services/${id}`}>
          Open service
        </Link>
        <Link className="button" href={`/services/${id}?tab=values`}>
          Values
        </Link>
      </p>
    </aside>
  );
}

/** All services that depend on each other or share values, as one graph with live states. */
export function ServiceGraph() {
  useSubscription({ query: ServiceDeltaDocument });
  const [{ data, error }] = useQuery({ query: ServiceGraphDocument, requestPolicy: "cache-and-network" });
  const [text] = useParam("q");
  const [problemsOnly, setProblemsOnly] = useState(false);
  const [selected, select] = useParam("service");
  const found = data?.serviceGraph;
  const graph = useMemo(() => (found === undefined ? undefined : graphOfServices(found)), [found]);
  const layout = useMemo(() => (graph === undefined ? undefined : layOut(graph)), [graph]);
  if (error !== undefined && found === undefined) return <Problem error={error} />;
  if (found === undefined || graph === undefined || layout === undefined) return <Skeleton lines={10} />;
  if (found.services.length === 0) return <Empty title="No relations yet">Services that import values of others, or wait for others, appear here.</Empty>;
  const lit = litServices(graph, text, problemsOnly);
  const hasDetails = found.services.some(({ id }) => id === selected);
  return (
    <div className="stack">
      <div className="bar">
        <label className="check">
          <input type="checkbox" checked={problemsOnly} onChange={(event) => setProblemsOnly(event.target.checked)} /> Not healthy
        </label>
        <span className="fill" />
        <span className="topology-legend">
          <span className="check">
            <span className="edge-sample configuration" aria-hidden="true" /> Values
          </span>
          <span className="check">
            <span className="edge-sample control" aria-hidden="true" /> Dependencies
          </span>
        </span>
        <span className="quiet" role="status">
          {lit === null ? counted(found.services.length, "service") : `${lit.size.toLocaleString()} shown`}
        </span>
      </div>
      {!found.complete && <p className="quiet">The fleet has more relations than the graph shows.</p>}
      <div className={hasDetails ? "topology with-details" : "topology"}>
        <Board label="Services" graph={graph} layout={layout} lit={lit} selected={selected} onSelect={select} onFold={select} />
        {hasDetails && <ServiceDetails id={selected} found={found} onSelect={select} />}
      </div>
    </div>
  );
}
