import { X } from "lucide-react";
import { Link } from "wouter";
import type { Service } from "../services/service";
import { SyncObjects } from "../services/SyncObjects";
import { counted } from "../text/counts";
import { Age } from "../ui/Age";
import { componentState, STATES } from "../ui/states";
import { Status } from "../ui/Status";
import { WorkloadActions, targetOf } from "../workloads/WorkloadActions";
import type { Vertex } from "./graph";

const MAX_MEMBERS = 200;

/** Details of the selected node of the topology. */
export function Details({ vertex, service, onClose }: { readonly vertex: Vertex; readonly service: Service; readonly onClose: () => void }) {
  const [only] = vertex.members;
  return (
    <aside className="topology-details card stack" aria-label="Selected object">
      <div className="topology-title">
        <div>
          <p className="quiet">{vertex.kind}</p>
          <h2>{vertex.name}</h2>
        </div>
        <button type="button" className="plain" onClick={onClose} title="Close">
          <X size={16} aria-hidden="true" />
          <span className="hidden-text">Close details</span>
        </button>
      </div>
      {vertex.owned === null || only === undefined ? (
        <ul className="topology-members">
          {vertex.members.slice(0, MAX_MEMBERS).map(({ id, name, state }) => (
            <li key={id}>
              <Link href={`/objects/${id}`}>{name}</Link> <Status state={componentState(state)} />
            </li>
          ))}
          {vertex.members.length > MAX_MEMBERS && <li className="quiet">and {counted(vertex.members.length - MAX_MEMBERS, "object")} more</li>}
        </ul>
      ) : (
        <>
          <p>
            <Status state={vertex.state} pill /> {vertex.outOfSync && <Status state={STATES.outOfSync} pill />}
          </p>
          {only.message !== null && only.message !== "" && <p className="topology-message">{only.message}</p>}
          <dl className="facts">
            {only.namespace !== null && (
              <>
                <dt>Namespace</dt>
                <dd>{only.namespace}</dd>
              </>
            )}
            {only.images.length > 0 && (
              <>
                <dt>Images</dt>
                <dd>
                  {only.images.map((image) => (
                    <code key={image}>{image} </code>
                  ))}
                </dd>
              </>
            )}
            <dt>Changed</dt>
            <dd>
              <Age at={only.updatedAt} />
            </dd>
          </dl>
          <p className="topology-links">
            <Link className="button" href={`/objects/${only.id}`}>
              Open object
            </Link>
            {vertex.outOfSync && (
              <Link className="button" href={`/objects/${only.id}?tab=drift`}>
                Show diff
              </Link>
            )}
            {!only.ownerUid && <SyncObjects serviceId={service.id} objects={[only]} />}
            {service.cluster !== null && <WorkloadActions targets={[targetOf(only, service.cluster.handle, service.id)]} />}
            {only.kind === "Pod" && (
              <Link className="button" href={`/objects/${only.id}?tab=logs`}>
                Logs
              </Link>
            )}
          </p>
        </>
      )}
    </aside>
  );
}
