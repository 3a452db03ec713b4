import { lazy, useState } from "react";
import { useQuery, useSubscription } from "urql";
import { Link, useParams } from "wouter";
import { ServiceDocument, ServiceLiveDocument } from "../api/generated";
import { AWAY } from "../clusters/away";
import { Logs, MOST_PODS } from "../objects/Logs";
import { EventsTable } from "../objects/Events";
import { Age } from "../ui/Age";
import { NotShown, NotThere } from "../ui/NotThere";
import { Skeleton } from "../ui/Skeleton";
import { Status } from "../ui/Status";
import { Tabs } from "../ui/Tabs";
import { Awaiting } from "./Awaiting";
import { Components } from "./Components";
import { History } from "./History";
import { Settings } from "./Settings";
import { Source } from "./Source";
import { ServiceActions } from "./ServiceActions";
import { ServiceEvents } from "./ServiceEvents";
import { serviceStatus } from "./status";
import { Timeline } from "./Timeline";
import { WhatIf } from "./WhatIf";
import type { Service } from "./service";
import "./service.css";

const Values = lazy(async () => ({ default: (await import("../flow/Values")).Values }));

function Head({ service }: { readonly service: Service }) {
  const { tone, word } = serviceStatus(service.status);
  const handle = service.cluster?.handle;
  return (
    <header className="service-head">
      <div>
        <p className="crumbs">
          <Link href="/services">Services</Link> /{" "}
          {handle === undefined ? "a deleted cluster" : <Link href={`/clusters/${handle}`}>{handle}</Link>} / {service.namespace}
        </p>
        <h1>
          {service.name}{" "}
          <Status tone={tone} pill>
            {word}
          </Status>
        </h1>
      </div>
      <span className="fill" />
      <span className="quiet">
        agent heard <Age at={service.cluster?.pingedAt ?? null} staleAfter={AWAY} />
      </span>
      <ServiceActions service={service} />
    </header>
  );
}

function Problems({ service }: { readonly service: Service }) {
  const notes = [...(service.message === null ? [] : [service.message]), ...(service.waiting ? ["It waits until the services that it depends on are healthy."] : [])];
  if (service.errors.length === 0 && notes.length === 0) return null;
  return (
    <ul className="problems" aria-label="What is wrong">
      {service.errors.map(({ source, message }, index) => (
        <li key={index}>
          <strong>{source}</strong> {message}
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

/** The first value that there was for a key: from then on changes are told of, none is missed. */
function useFirst(key: string, value: string | undefined): string | undefined {
  const [kept, keep] = useState<{ readonly key: string; readonly value: string } | null>(null);
  if (value !== undefined && kept?.key !== key) keep({ key, value });
  return kept?.key === key ? kept.value : value;
}

/** One service: what is wrong, what runs, where it came from, how to go back. */
export function ServicePage() {
  const { id } = useParams<{ id: string }>();
  const [{ data, error }] = useQuery({ query: ServiceDocument, variables: { id } });
  const service = data?.serviceDeployment;
  const since = useFirst(id, service?.updatedAt);
  useSubscription({ query: ServiceLiveDocument, variables: { id, since }, pause: since === undefined });
  if (error !== undefined && service == null) return <NotShown error={error} what="service" />;
  if (data == null) return <Skeleton lines={14} />;
  if (service == null) return <NotThere what="service" />;
  const pods = service.components.filter(({ kind, group }) => kind === "Pod" && !group);
  return (
    <article>
      <Head service={service} />
      <Problems service={service} />
      <Awaiting service={service} />
      <Source service={service} />
      <Tabs
        tabs={[
          { id: "objects", title: `Objects ${service.components.length}`, content: () => <Components of={service.components} /> },
          { id: "timeline", title: "Why not live", content: () => <Timeline service={service} /> },
          { id: "history", title: "History", content: () => <History service={service} /> },
          { id: "whatif", title: "What if", content: () => <WhatIf service={service} /> },
          { id: "values", title: "Values", content: () => <Values serviceId={service.id} /> },
          { id: "events", title: "Events", content: () => <ServiceEvents serviceId={service.id} render={EventsTable} /> },
          { id: "logs", title: "Logs", content: () => <Logs handle={service.cluster?.handle ?? ""} pods={pods.slice(0, MOST_PODS)} of={pods.length} /> },
          { id: "settings", title: "Settings", content: () => <Settings service={service} /> },
        ]}
      />
    </article>
  );
}
