import { useEffect, useState } from "react";
import { useQuery, useSubscription } from "urql";
import { Link, useParams } from "wouter";
import { ObjectRelationsDocument, ServiceDocument, ServiceLiveDocument } from "../api/generated";
import { freezeText } from "../clusters/freeze";
import { LastSeen } from "../clusters/LastSeen";
import { Logs, MAX_PODS } from "../objects/Logs";
import { EventsTable } from "../objects/Events";
import { ResourceError, ResourceNotFound } from "../ui/ResourceNotFound";
import { AsYaml } from "../manage/AsYaml";
import { Skeleton } from "../ui/Skeleton";
import { Status } from "../ui/Status";
import { Tabs } from "../ui/Tabs";
import { useParam } from "../ui/useParam";
import { PendingDeletions } from "./PendingDeletions";
import { Components } from "./Components";
import { History } from "./History";
import { Settings } from "./Settings";
import { Source } from "./Source";
import { ServiceActions } from "./ServiceActions";
import { ServiceEvents } from "./ServiceEvents";
import { serviceState } from "../ui/states";
import { Maintenance, Overview, Topology, Values } from "./tabs";
import { Timeline } from "./Timeline";
import { Preview } from "./Preview";
import { Provenance } from "./Provenance";
import { isRestartable } from "../workloads/actions";
import { WorkloadActions, targetOf } from "../workloads/WorkloadActions";
import type { Service } from "./service";
import "./service.css";

/** Loads the graph of a service while the service itself is read. */
function usePreparedTopology(id: string): void {
  const [tab] = useParam("tab");
  const isShown = tab === "topology";
  useQuery({ query: ObjectRelationsDocument, variables: { id }, pause: !isShown });
  useEffect(() => {
    if (isShown) void Topology.preload();
  }, [isShown]);
}

function Head({ service }: { readonly service: Service }) {
  const handle = service.cluster?.handle;
  return (
    <header className="service-head">
      <div>
        <p className="crumbs">
          <Link href="/services">Services</Link> /{" "}
          {handle === undefined ? "deleted cluster" : <Link href={`/clusters/${handle}`}>{handle}</Link>} / {service.namespace}
        </p>
        <h1>
          {service.name}{" "}
          <Status state={serviceState(service.status, service.commitsBehind)} pill />
        </h1>
      </div>
      <span className="fill" />
      {service.cluster !== null && (
        <span className="quiet">
          agent last seen <LastSeen cluster={service.cluster} />
        </span>
      )}
      {service.cluster !== null && <WorkloadActions title="Workloads" targets={workloadsOf(service, service.cluster.handle)} />}
      <ServiceActions service={service} />
      {handle !== undefined && <AsYaml kind="Service" name={`${handle}/${service.name}`} />}
    </header>
  );
}

/** Workloads that the service defines. */
const workloadsOf = ({ id, components }: Service, handle: string) => components.filter((component) => !component.ownerUid && isRestartable(component)).map((component) => targetOf(component, handle, id));

function Problems({ service }: { readonly service: Service }) {
  const notes = [
    ...(service.freeze === null ? [] : [freezeText(service.freeze)]),
    ...(service.message === null ? [] : [service.message]),
    ...(service.waiting ? ["Waiting for dependencies to become healthy."] : []),
  ];
  if (service.errors.length === 0 && notes.length === 0) return null;
  return (
    <ul className="problems" aria-label="Problems">
      {service.errors.map(({ source, message, reason, lasting }, index) => (
        <li key={index}>
          <strong>{source}</strong> {message}
          {reason !== "" && <span className="quiet"> {reason}</span>}
          {lasting && <span className="quiet"> · A retry cannot help.</span>}
        </li>
      ))}
      {notes.map((note) => (
        <li key={note} className="note">
          {note}
        </li>
      ))}
    </ul>
  );
}

/** First value of a key. The subscription starts from it, so that no change is missed. */
function useFirst(key: string, value: string | undefined): string | undefined {
  const [kept, keep] = useState<{ readonly key: string; readonly value: string } | null>(null);
  if (value !== undefined && kept?.key !== key) keep({ key, value });
  return kept?.key === key ? kept.value : value;
}

/** Page of one service: problems, objects, rollout, history and settings. */
export function ServicePage() {
  const { id } = useParams<{ id: string }>();
  const [{ data, error }] = useQuery({ query: ServiceDocument, variables: { id } });
  usePreparedTopology(id);
  const service = data?.serviceDeployment;
  const since = useFirst(id, service?.updatedAt);
  useSubscription({ query: ServiceLiveDocument, variables: { id, since }, pause: since === undefined });
  if (error !== undefined && service == null) return <ResourceError error={error} kind="service" />;
  if (data == null) return <Skeleton lines={14} />;
  if (service == null) return <ResourceNotFound kind="service" />;
  const pods = service.components.filter(({ kind, group }) => kind === "Pod" && !group);
  return (
    <article>
      <Head service={service} />
      <Problems service={service} />
      <PendingDeletions service={service} />
      <Source service={service} />
      <Tabs
        tabs={[
          { id: "overview", title: "Overview", content: () => <Overview service={service} /> },
          { id: "objects", title: `Objects ${service.components.length.toLocaleString()}`, content: () => <Components of={service.components} handle={service.cluster?.handle ?? ""} serviceId={service.id} /> },
          { id: "topology", title: "Topology", content: () => <Topology service={service} /> },
          { id: "timeline", title: "Rollout", content: () => <Timeline service={service} /> },
          { id: "history", title: "History", content: () => <History service={service} /> },
          { id: "provenance", title: "Provenance", content: () => <Provenance serviceId={service.id} /> },
          { id: "preview", title: "Preview", content: () => <Preview service={service} /> },
          { id: "values", title: "Values", content: () => <Values serviceId={service.id} /> },
          { id: "events", title: "Events", content: () => <ServiceEvents serviceId={service.id} render={EventsTable} /> },
          { id: "logs", title: "Logs", content: () => <Logs handle={service.cluster?.handle ?? ""} pods={pods.slice(0, MAX_PODS)} of={pods.length} /> },
          { id: "maintenance", title: "Maintenance", content: () => <Maintenance service={service} /> },
          { id: "settings", title: "Settings", content: () => <Settings service={service} /> },
        ]}
      />
    </article>
  );
}
