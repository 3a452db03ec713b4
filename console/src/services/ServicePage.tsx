import { useQuery, useSubscription } from "urql";
import { useParams } from "wouter";
import { ServiceDeltaDocument, ServiceDocument } from "../api/generated";
import { Age } from "../ui/Age";
import { Problem } from "../ui/Problem";
import { Skeleton } from "../ui/Skeleton";
import { Status } from "../ui/Status";
import { Tabs } from "../ui/Tabs";
import { Components } from "./Components";
import { History } from "./History";
import { Timeline } from "./Timeline";
import { ServiceActions } from "./ServiceActions";
import { serviceStatus } from "./status";
import type { Service } from "./service";
import "./service.css";

const AWAY = 60_000;

function Head({ service }: { readonly service: Service }) {
  const { tone, word } = serviceStatus(service.status);
  return (
    <header className="service-head">
      <div>
        <h1>{service.name}</h1>
        <p className="quiet">
          {service.namespace} in {service.cluster?.handle ?? "a deleted cluster"}
        </p>
      </div>
      <Status tone={tone}>{word}</Status>
      <span>
        agent heard <Age at={service.cluster?.pingedAt ?? null} staleAfter={AWAY} />
      </span>
      <span className="fill" />
      <ServiceActions service={service} />
    </header>
  );
}

function Source({ service }: { readonly service: Service }) {
  const { repository, git, revision, sha, pinnedSha } = service;
  return (
    <dl className="facts">
      <dt>From</dt>
      <dd>
        {repository?.url ?? "no repository"} <code>{git?.ref}</code> <code>{git?.folder || "/"}</code>
      </dd>
      <dt>Commit</dt>
      <dd>
        <code>{sha?.slice(0, 12) ?? "none yet"}</code> {revision?.subject}{" "}
        <span className="quiet">{revision?.author}</span>
      </dd>
      {pinnedSha !== null && (
        <>
          <dt>Held</dt>
          <dd>
            at <code>{pinnedSha.slice(0, 12)}</code> after a rollback: new commits do not move it
          </dd>
        </>
      )}
    </dl>
  );
}

function Problems({ service }: { readonly service: Service }) {
  if (service.errors.length === 0) return null;
  return (
    <ul className="problems" aria-label="What is wrong">
      {service.errors.map(({ source, message }, index) => (
        <li key={index}>
          <strong>{source}</strong> {message}
        </li>
      ))}
    </ul>
  );
}

/** One service: what is wrong, what runs, where it came from, how to go back. */
export function ServicePage() {
  const { id } = useParams<{ id: string }>();
  const [{ data, error }] = useQuery({ query: ServiceDocument, variables: { id } });
  useSubscription({ query: ServiceDeltaDocument, variables: { id } });
  const service = data?.serviceDeployment;
  if (error !== undefined && service == null) return <Problem error={error} />;
  if (service == null) return <Skeleton lines={14} />;
  return (
    <article>
      <Head service={service} />
      <Problems service={service} />
      <Source service={service} />
      <Tabs
        tabs={[
          { id: "objects", title: `Objects ${service.components.length}`, content: () => <Components of={service.components} /> },
          { id: "timeline", title: "Why not live", content: () => <Timeline serviceId={service.id} /> },
          { id: "history", title: "History", content: () => <History service={service} /> },
        ]}
      />
    </article>
  );
}
