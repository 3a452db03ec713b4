import type { ReactNode } from "react";
import { useQuery, useSubscription } from "urql";
import { Link, useParams } from "wouter";
import { ComponentDocument, ComponentEventsDocument, ComponentLiveDocument, OwnerServiceDocument, ServiceDeltaDocument, type ComponentQuery } from "../api/generated";
import { OFFLINE_AFTER } from "../clusters/offline";
import { LastSeen } from "../clusters/LastSeen";
import { useRefetch } from "../live/useRefetch";
import { componentState, STATES } from "../ui/states";
import { toYaml } from "../text/yaml";
import { Age } from "../ui/Age";
import { Code } from "../ui/Code";
import { ResourceError, ResourceNotFound } from "../ui/ResourceNotFound";
import { Problem } from "../ui/Problem";
import { Skeleton } from "../ui/Skeleton";
import { Status } from "../ui/Status";
import { Tabs, type Tab } from "../ui/Tabs";
import { FieldOwners } from "./FieldOwners";
import { Drift } from "./Drift";
import { EventsTable } from "./Events";
import { Logs, MAX_PODS } from "./Logs";
import { Shell } from "./Shell";
import { WorkloadActions, targetOf } from "../workloads/WorkloadActions";
import "../services/service.css";

type Family = NonNullable<ComponentQuery["component"]>;
type Relative = { readonly id: string; readonly kind: string; readonly name: string; readonly state: string | null };

function Live({ id }: { readonly id: string }) {
  const [{ data, error, fetching }, refetch] = useQuery({ query: ComponentLiveDocument, variables: { id }, requestPolicy: "network-only" });
  if (error !== undefined && data == null) return <Problem error={error} />;
  if (data == null) return <Skeleton lines={14} />;
  if (data.componentLive === null) return <p className="quiet">This object is no longer in the cluster.</p>;
  return (
    <>
      <div className="bar">
        <span className="quiet">
          read <Age at={data.componentLive.readAt} staleAfter={OFFLINE_AFTER} />
        </span>
        <button type="button" disabled={fetching} onClick={() => refetch({ requestPolicy: "network-only" })}>
          Refresh
        </button>
      </div>
      <Code text={toYaml(data.componentLive.object)} label="Live manifest" />
    </>
  );
}

function Events({ id }: { readonly id: string }) {
  const [{ data, error }] = useQuery({ query: ComponentEventsDocument, variables: { id }, requestPolicy: "network-only" });
  if (error !== undefined && data == null) return <Problem error={error} />;
  if (data == null) return <Skeleton lines={6} />;
  return <EventsTable events={data.componentEvents} />;
}

function Relatives({ title, of }: { readonly title: string; readonly of: readonly Relative[] }) {
  if (of.length === 0) return null;
  return (
    <>
      <dt>{title}</dt>
      <dd className="relatives">
        {of.slice(0, 100).map(({ id, kind, name, state }) => (
          <span key={id}>
            <span className="kind">{kind}</span> <Link href={`/objects/${id}`}>{name}</Link> <Status state={componentState(state)} />
          </span>
        ))}
        {of.length > 100 && <span className="quiet">and {of.length - 100} more</span>}
      </dd>
    </>
  );
}

/** Labels by name, without those that Towline sets. */
function Labels({ labels }: { readonly labels: Readonly<Record<string, unknown>> }) {
  const others = Object.entries(labels)
    .filter(([name]) => !name.startsWith("towline.dev/"))
    .sort(([left], [right]) => left.localeCompare(right));
  if (others.length === 0) return null;
  return (
    <>
      <dt>Labels</dt>
      <dd>
        {others.map(([name, value]) => (
          <code key={name} className="label">
            {name}={String(value)}
          </code>
        ))}
      </dd>
    </>
  );
}

/** Id of the service that owns an object. Applied objects have a label; their descendants take it from a parent. */
function serviceOf({ component, parents }: Family): string {
  const ids = [component, ...parents].map(({ labels }) => labels["towline.dev/service"]);
  return ids.find((id) => typeof id === "string") ?? "";
}

/** Shows a placeholder until the cluster's handle is known. */
const inCluster = (handle: string, content: ReactNode): ReactNode => (handle === "" ? <Skeleton lines={6} /> : content);

function tabsOf(family: Family, handle: string): readonly [Tab, ...Tab[]] {
  const { component } = family;
  const pod = { namespace: component.namespace ?? "", name: component.name };
  const isPod = component.kind === "Pod" && !component.group;
  const pods = isPod ? [pod] : family.children.filter(({ kind }) => kind === "Pod");
  return [
    { id: "live", title: "Live", content: () => <Live id={component.id} /> },
    { id: "drift", title: component.synced ? "Diff" : "Drift", content: () => <Drift component={component} serviceId={serviceOf(family)} /> },
    { id: "owners", title: "Field owners", content: () => <FieldOwners id={component.id} /> },
    { id: "events", title: "Events", content: () => <Events id={component.id} /> },
    ...(pods.length > 0 ? [{ id: "logs", title: "Logs", content: () => inCluster(handle, <Logs handle={handle} pods={pods.slice(0, MAX_PODS)} of={pods.length} />) }] : []),
    ...(isPod ? [{ id: "shell", title: "Shell", content: () => inCluster(handle, <Shell handle={handle} pod={pod} />) }] : []),
  ];
}

/** Page of one object: state, owners, manifest, drift, events, logs and shell. */
export function ObjectPage() {
  const { id } = useParams<{ id: string }>();
  const [{ data, error }, refetch] = useQuery({ query: ComponentDocument, variables: { id } });
  const serviceId = data?.component == null ? "" : serviceOf(data.component);
  const [moved] = useSubscription({ query: ServiceDeltaDocument, variables: { id: serviceId }, pause: serviceId === "" });
  useRefetch(refetch, moved.data?.serviceDeploymentDelta.payload?.observedAt ?? "");
  const [owner] = useQuery({ query: OwnerServiceDocument, variables: { id: serviceId }, pause: serviceId === "" });
  if (error !== undefined && data == null) return <ResourceError error={error} kind="object" />;
  if (data == null) return <Skeleton lines={14} />;
  if (data.component === null) return <ResourceNotFound kind="object" />;
  const { component, parents, children } = data.component;
  const service = owner.data?.serviceDeployment;
  const handle = service?.cluster?.handle ?? "";
  return (
    <article>
      <header className="service-head">
        <div>
          <p className="crumbs">
            {service == null ? "Objects" : <Link href={`/services/${service.id}`}>{`${handle}/${service.name}`}</Link>} / {component.kind}
            {component.namespace !== null && ` / ${component.namespace}`}
          </p>
          <h1>
            {component.name}{" "}
            <Status state={componentState(component.state)} pill />
            {!component.synced && <Status state={STATES.outOfSync} pill />}
          </h1>
        </div>
        <span className="fill" />
        <span className="quiet">
          changed <Age at={component.updatedAt} />
          {service?.cluster != null && (
            <>
              , agent last seen <LastSeen cluster={service.cluster} />
            </>
          )}
        </span>
        {handle !== "" && <WorkloadActions targets={[targetOf(component, handle, serviceId)]} />}
      </header>
      {component.message !== null && component.message !== "" && (
        <ul className="problems">
          <li className={component.state === "FAILED" ? "" : "note"}>{component.message}</li>
        </ul>
      )}
      <dl className="facts card">
        <Relatives title="Owned by" of={parents} />
        <Relatives title="Owns" of={children} />
        {component.images.length > 0 && (
          <>
            <dt>Images</dt>
            <dd className="relatives">
              {component.images.map((image) => (
                <Link key={image} href={`/search?q=${encodeURIComponent(`image:${image.split("/").at(-1) ?? image}`)}`}>
                  <code>{image}</code>
                </Link>
              ))}
            </dd>
          </>
        )}
        <Labels labels={component.labels} />
      </dl>
      <Tabs tabs={tabsOf(data.component, handle)} />
    </article>
  );
}
