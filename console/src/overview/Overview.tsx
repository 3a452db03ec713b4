import { useEffect, useRef, useState, type ReactNode } from "react";
import { useQuery } from "urql";
import { Link } from "wouter";
import { OverviewAuditDocument, OverviewDefinitionDocument, OverviewDependencyDocument, OverviewDeploymentsDocument, OverviewManifestsDocument, OverviewNotificationsDocument } from "../api/generated";
import { reasonOf } from "../bulk/operation";
import { resultOf, took } from "../reports/deployments";
import type { Service } from "../services/service";
import { counted } from "../text/counts";
import { Age } from "../ui/Age";
import { Person } from "../ui/Person";
import { Skeleton } from "../ui/Skeleton";
import { SparkBars, Sparkline } from "../ui/Sparkline";
import { auditState, serviceState } from "../ui/states";
import { Status } from "../ui/Status";
import { linksOf } from "./links";
import { bytes, cores } from "./quantities";
import { readStatus, type Usage, type WorkloadStatus } from "./workloadStatus";
import "./overview.css";

const INTERVAL = 15_000;
const MAX_SAMPLES = 120;

type Samples = { readonly cpu: readonly number[]; readonly memory: readonly number[] };
type Read = { readonly status: WorkloadStatus | null; readonly problem: string; readonly samples: Samples };

/** State of the workloads, read every 15 seconds while the page is visible. */
function useStatus({ cluster, components }: Service): Read {
  const [read, setRead] = useState<Read>({ status: null, problem: "", samples: { cpu: [], memory: [] } });
  const latest = useRef(components);
  useEffect(() => {
    latest.current = components;
  }, [components]);
  const handle = cluster?.handle ?? "";
  useEffect(() => {
    if (handle === "") return undefined;
    let cancelled = false;
    const next = async () => {
      if (document.hidden) return;
      try {
        const status = await readStatus(handle, latest.current);
        const { cpu, memory } = status;
        if (!cancelled)
          setRead(({ samples }) => ({
            status,
            problem: "",
            samples: {
              cpu: cpu === null ? [] : [...samples.cpu, cpu.used].slice(-MAX_SAMPLES),
              memory: memory === null ? [] : [...samples.memory, memory.used].slice(-MAX_SAMPLES),
            },
          }));
      } catch (error) {
        if (!cancelled) setRead((known) => ({ ...known, problem: reasonOf(error) }));
      }
    };
    void next();
    const timer = setInterval(() => void next(), INTERVAL);
    return () => {
      cancelled = true;
      clearInterval(timer);
    };
  }, [handle]);
  return read;
}

function Card({ title, children }: { readonly title: string; readonly children: ReactNode }) {
  return (
    <section className="card" aria-label={title}>
      <h2>{title}</h2>
      {children}
    </section>
  );
}

type FigureProps = { readonly title: string; readonly usage: Usage; readonly format: (value: number) => string; readonly samples: readonly number[] };

function Figure({ title, usage: { used, requested }, format, samples }: FigureProps) {
  return (
    <div className="figure">
      <span className="quiet">{title}</span>
      <strong>{format(used)}</strong>
      <span className="quiet">{requested === 0 ? "nothing requested" : `of ${format(requested)} requested`}</span>
      <Sparkline values={samples} label={`${title} since this page is open, at most ${format(Math.max(0, ...samples))}`} />
    </div>
  );
}

function Workloads({ service }: { readonly service: Service }) {
  const { status, problem, samples } = useStatus(service);
  if (service.cluster === null) return null;
  return (
    <Card title="Workloads">
      {problem !== "" && <p className="status bad">The cluster did not answer: {problem}</p>}
      {status === null && problem === "" && <Skeleton lines={3} />}
      {status !== null && (
        <>
          <div className="figures">
            {status.replicas.map(({ id, kind, name, ready, desired }) => (
              <div key={id} className="figure">
                <span className="quiet">{kind}</span>
                <Link href={`/objects/${id}`}>{name}</Link>
                <span className={ready < desired ? "status bad" : "status ok"}>
                  {ready} of {desired} ready
                </span>
              </div>
            ))}
            <div className="figure">
              <span className="quiet">Restarts</span>
              <strong>{status.restarts.toLocaleString()}</strong>
              <span className="quiet">in {counted(status.pods, "Pod")}</span>
            </div>
            {status.cpu !== null && <Figure title="CPU" usage={status.cpu} format={cores} samples={samples.cpu} />}
            {status.memory !== null && <Figure title="Memory" usage={status.memory} format={bytes} samples={samples.memory} />}
          </div>
          {status.noMetrics !== "" && <p className="quiet">{status.noMetrics}</p>}
        </>
      )}
    </Card>
  );
}

function Deployments({ service: { id, digest, status } }: { readonly service: Service }) {
  const [{ data }] = useQuery({ query: OverviewDeploymentsDocument, variables: { id }, requestPolicy: "cache-and-network", context: useKeyed(`${digest ?? ""} ${status}`) });
  const rows = data?.deploymentHistory ?? [];
  const [last] = rows;
  const bars = [...rows].reverse().map((row) => ({ tone: resultOf(row).tone, value: new Date(row.healthyAt ?? row.failedAt ?? row.desiredAt).getTime() - new Date(row.desiredAt).getTime() }));
  return (
    <Card title="Last deployment">
      {data === undefined ? (
        <Skeleton lines={2} />
      ) : last === undefined ? (
        <p className="quiet">No deployments yet.</p>
      ) : (
        <>
          <p>
            <Status state={resultOf(last)} /> <Age at={last.desiredAt} /> {took(last) !== "" && `in ${took(last)}`}, commit <code>{last.sha?.slice(0, 8)}</code> by <Person author={last.actor} />
          </p>
          <p className="figure-line">
            <SparkBars bars={bars} label={`Duration and result of the last ${counted(bars.length, "deployment")}`} />
            <Link href={`/services/${id}?tab=history`}>All deployments</Link>
          </p>
        </>
      )}
    </Card>
  );
}

/** Request context that changes with a key, so that a query runs again. */
function useKeyed(key: string) {
  const [context, setContext] = useState({ key });
  if (context.key !== key) setContext({ key });
  return context as object;
}

function Images({ images, version }: { readonly images: readonly string[]; readonly version: string }) {
  return (
    <Card title="Images">
      {images.length === 0 && <p className="quiet">No container images.</p>}
      <ul className="plain-list">
        {images.map((image) => (
          <li key={image}>
            <Link href={`/search?q=${encodeURIComponent(`image:${image.split("/").at(-1) ?? image}`)}`}>
              <code>{image}</code>
            </Link>
          </li>
        ))}
      </ul>
      {version !== "" && <p className="quiet">Version of the service: {version}</p>}
    </Card>
  );
}

function Dependency({ clusterId, name }: { readonly clusterId: string; readonly name: string }) {
  const [{ data }] = useQuery({ query: OverviewDependencyDocument, variables: { clusterId, q: name } });
  const found = data?.serviceDeployments.edges.find(({ node }) => node.name === name)?.node;
  if (found === undefined) return <li>{name} {data != null && <span className="quiet">not found in this cluster</span>}</li>;
  return (
    <li>
      <Link href={`/services/${found.id}`}>{name}</Link> <Status state={serviceState(found.status, found.commitsBehind)} />
    </li>
  );
}

function Dependencies({ service: { dependencies, cluster, waiting } }: { readonly service: Service }) {
  return (
    <Card title="Dependencies">
      {dependencies.length === 0 || cluster === null ? (
        <p className="quiet">The service waits for no other service.</p>
      ) : (
        <ul className="plain-list">
          {dependencies.map(({ name }) => (
            <Dependency key={name} clusterId={cluster.id} name={name} />
          ))}
        </ul>
      )}
      {waiting && <p className="status busy">Waiting for dependencies to become healthy.</p>}
    </Card>
  );
}

function Objectives({ id }: { readonly id: string }) {
  const [{ data }] = useQuery({ query: OverviewDefinitionDocument, variables: { id } });
  const verification = data?.serviceDeployment?.verification;
  return (
    <Card title="Objectives">
      {data === undefined && <Skeleton lines={2} />}
      {data != null && verification == null && <p className="quiet">No verification: a deployment is complete when its objects are healthy.</p>}
      {verification != null && (
        <ul className="plain-list">
          <li>Healthy for {verification.soakSeconds} s after each deployment</li>
          <li>At most {counted(verification.maxRestarts, "restart")} in that time</li>
          {verification.metric !== null && (
            <li>
              <code>{verification.metric.query}</code> {verification.metric.comparison.toLowerCase().replaceAll("_", " ")} {verification.metric.threshold}
            </li>
          )}
        </ul>
      )}
    </Card>
  );
}

function Links({ service: { id, digest } }: { readonly service: Service }) {
  const [{ data, error }] = useQuery({ query: OverviewManifestsDocument, variables: { id }, requestPolicy: "cache-and-network", context: useKeyed(digest ?? "") });
  // A service that is not rendered yet has no manifests: the answer is an error without data.
  const links = linksOf(data?.serviceManifests.objects ?? []);
  return (
    <Card title="Links">
      {data == null && error === undefined && <Skeleton lines={2} />}
      {links.length === 0 && (data != null || error !== undefined) && <p className="quiet">No hostnames of routes and no annotations with addresses.</p>}
      <ul className="plain-list">
        {links.map(({ title, url }) => (
          <li key={url}>
            <a href={url} target="_blank" rel="noreferrer noopener" title={url}>
              {title}
            </a>
          </li>
        ))}
      </ul>
    </Card>
  );
}

function Activity({ service: { id, name } }: { readonly service: Service }) {
  const [audit] = useQuery({ query: OverviewAuditDocument, variables: { id }, requestPolicy: "cache-and-network" });
  const [notifications] = useQuery({ query: OverviewNotificationsDocument, variables: { q: name }, requestPolicy: "cache-and-network" });
  const rows = audit.data?.auditLogs.edges.map(({ node }) => node) ?? [];
  const told = (notifications.data?.appNotifications.edges ?? []).filter(({ node }) => node.serviceId === id).slice(0, 6);
  return (
    <>
      <Card title="Audit">
        {audit.error !== undefined && <p className="quiet">You may not read the audit log of this service.</p>}
        {audit.data != null && rows.length === 0 && <p className="quiet">No changes by users.</p>}
        <ul className="plain-list">
          {rows.map(({ id: row, at, actor, action, verdict }) => (
            <li key={row}>
              <Age at={at} /> <Status state={auditState(verdict)} /> <code>{action}</code> <span className="quiet">{actor}</span>
            </li>
          ))}
        </ul>
        {rows.length > 0 && <Link href={`/audit?q=${encodeURIComponent(name)}`}>All audit entries</Link>}
      </Card>
      <Card title="Notifications">
        {notifications.error !== undefined && <p className="quiet">You may not read notifications.</p>}
        {notifications.data != null && told.length === 0 && <p className="quiet">No recent notifications about this service.</p>}
        <ul className="plain-list">
          {told.map(({ node }) => (
            <li key={node.id}>
              <Age at={node.at} /> {node.subject}
            </li>
          ))}
        </ul>
      </Card>
    </>
  );
}

/** State of a service at a glance. */
export function Overview({ service }: { readonly service: Service }) {
  return (
    <div className="overview">
      <Workloads service={service} />
      <div className="overview-columns">
        <Deployments service={service} />
        <Images images={service.metadata.images} version={service.version} />
        <Dependencies service={service} />
        <Objectives id={service.id} />
        <Links service={service} />
        <Activity service={service} />
      </div>
    </div>
  );
}
