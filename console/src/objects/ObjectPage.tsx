import type { ReactNode } from "react";
import { useQuery, useSubscription } from "urql";
import { Link, useParams } from "wouter";
import { ComponentDocument, ComponentEventsDocument, ComponentLiveDocument, OfServiceDocument, ServiceDeltaDocument, type ComponentQuery } from "../api/generated";
import { AWAY } from "../clusters/away";
import { useAgain } from "../live/useAgain";
import { componentState } from "../services/status";
import { toYaml } from "../text/yaml";
import { Age } from "../ui/Age";
import { Code } from "../ui/Code";
import { NotShown, NotThere } from "../ui/NotThere";
import { Problem } from "../ui/Problem";
import { Skeleton } from "../ui/Skeleton";
import { Status } from "../ui/Status";
import { Tabs, type Tab } from "../ui/Tabs";
import { Blame } from "./Blame";
import { Drift } from "./Drift";
import { EventsTable } from "./Events";
import { Logs, MOST_PODS } from "./Logs";
import { Shell } from "./Shell";
import "../services/service.css";

type Family = NonNullable<ComponentQuery["component"]>;
type Relative = { readonly id: string; readonly kind: string; readonly name: string; readonly state: string | null };

function Live({ id }: { readonly id: string }) {
  const [{ data, error, fetching }, again] = useQuery({ query: ComponentLiveDocument, variables: { id }, requestPolicy: "network-only" });
  if (error !== undefined && data == null) return <Problem error={error} />;
  if (data == null) return <Skeleton lines={14} />;
  if (data.componentLive === null) return <p className="quiet">It is not in the cluster now.</p>;
  return (
    <>
      <div className="bar">
        <span className="quiet">
          read <Age at={data.componentLive.readAt} staleAfter={AWAY} />
        </span>
        <button type="button" disabled={fetching} onClick={() => again({ requestPolicy: "network-only" })}>
          Read again
        </button>
      </div>
      <Code text={toYaml(data.componentLive.object)} label="The object as it is in its cluster" />
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
        {of.slice(0, 100).map((one) => {
          const { tone, word } = componentState(one.state);
          return (
            <span key={one.id}>
              <span className="kind">{one.kind}</span> <Link href={`/objects/${one.id}`}>{one.name}</Link> <Status tone={tone}>{word}</Status>
            </span>
          );
        })}
        {of.length > 100 && <span className="quiet">and {of.length - 100} more</span>}
      </dd>
    </>
  );
}

/** The labels that are not Towline's own. */
function Labels({ labels }: { readonly labels: Readonly<Record<string, unknown>> }) {
  const others = Object.entries(labels).filter(([name]) => !name.startsWith("towline.dev/"));
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

/** The service that an object belongs to: what is applied bears a label, what it owns has it above. */
function serviceOf({ component, parents }: Family): string {
  const ids = [component, ...parents].map(({ labels }) => labels["towline.dev/service"]);
  return ids.find((id) => typeof id === "string") ?? "";
}

/** What needs the cluster's name waits until it is known. */
const inCluster = (handle: string, content: ReactNode): ReactNode => (handle === "" ? <Skeleton lines={6} /> : content);

function tabsOf(family: Family, handle: string): readonly [Tab, ...Tab[]] {
  const { component } = family;
  const pod = { namespace: component.namespace ?? "", name: component.name };
  const isPod = component.kind === "Pod" && !component.group;
  const pods = isPod ? [pod] : family.children.filter(({ kind }) => kind === "Pod");
  return [
    { id: "live", title: "Live", content: () => <Live id={component.id} /> },
    { id: "drift", title: component.synced ? "Git and live" : "Drift", content: () => <Drift component={component} /> },
    { id: "who", title: "Who set what", content: () => <Blame id={component.id} /> },
    { id: "events", title: "Events", content: () => <Events id={component.id} /> },
    ...(pods.length > 0 ? [{ id: "logs", title: "Logs", content: () => inCluster(handle, <Logs handle={handle} pods={pods.slice(0, MOST_PODS)} of={pods.length} />) }] : []),
    ...(isPod ? [{ id: "shell", title: "Shell", content: () => inCluster(handle, <Shell handle={handle} pod={pod} />) }] : []),
  ];
}

/** One object of a cluster: its state and why, what owns it, and all that can be looked at. */
export function ObjectPage() {
  const { id } = useParams<{ id: string }>();
  const [{ data, error }, again] = useQuery({ query: ComponentDocument, variables: { id } });
  const serviceId = data?.component == null ? "" : serviceOf(data.component);
  const [moved] = useSubscription({ query: ServiceDeltaDocument, variables: { id: serviceId }, pause: serviceId === "" });
  useAgain(again, moved.data?.serviceDeploymentDelta.payload?.observedAt ?? "");
  const [owner] = useQuery({ query: OfServiceDocument, variables: { id: serviceId }, pause: serviceId === "" });
  if (error !== undefined && data == null) return <NotShown error={error} what="object" />;
  if (data == null) return <Skeleton lines={14} />;
  if (data.component === null) return <NotThere what="object" />;
  const { component, parents, children } = data.component;
  const { tone, word } = componentState(component.state);
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
            <Status tone={tone} pill>
              {word}
            </Status>
            {!component.synced && (
              <Status tone="warn" pill>
                drifted
              </Status>
            )}
          </h1>
        </div>
        <span className="fill" />
        <span className="quiet">
          changed <Age at={component.updatedAt} />
          {service?.cluster != null && (
            <>
              , agent heard <Age at={service.cluster.pingedAt} staleAfter={AWAY} />
            </>
          )}
        </span>
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
