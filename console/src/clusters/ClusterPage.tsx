import { useState } from "react";
import { useMutation, useQuery, useSubscription } from "urql";
import { Link, useLocation, useParams } from "wouter";
import { ClusterDeltaDocument, ClusterDocument, DetachClusterDocument, RotateTokenDocument, type ClusterQuery } from "../api/generated";
import { ServiceList } from "../services/ServicesPage";
import { Age } from "../ui/Age";
import { Confirm } from "../ui/Confirm";
import { NotShown, NotThere } from "../ui/NotThere";
import { Problem } from "../ui/Problem";
import { Secret } from "../ui/Secret";
import { Skeleton } from "../ui/Skeleton";
import { Table } from "../ui/Table";
import { Tabs } from "../ui/Tabs";
import { toast } from "../ui/toast";
import { AWAY } from "./away";
import { Presence } from "./ClustersPage";
import { Streams } from "./Streams";
import "./clusters.css";
import "../services/service.css";

type Cluster = NonNullable<ClusterQuery["cluster"]>;

const GIB = 2 ** 30;

function Figures({ cluster }: { readonly cluster: Cluster }) {
  const { facts } = cluster;
  const figures: readonly (readonly [string, string])[] = [
    ["Kubernetes", cluster.currentVersion ?? "–"],
    ["Distribution", cluster.distro?.toLowerCase() ?? "–"],
    ["Nodes", cluster.nodeCount?.toString() ?? "–"],
    ["CPU", facts.cpuMillis === null ? "–" : `${Math.round(facts.cpuMillis / 100) / 10} cores`],
    ["Memory", facts.memoryBytes === null ? "–" : `${Math.round(facts.memoryBytes / GIB)} GiB`],
    ["Room for pods", facts.podCapacity?.toString() ?? "–"],
    ["Agent", `${cluster.agentVersion ?? "–"}${cluster.agentMode === "MANAGED" ? "" : ` ${cluster.agentMode.toLowerCase()}`}`],
  ];
  return (
    <dl className="figures">
      {figures.map(([name, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}

function OldApis({ cluster }: { readonly cluster: Cluster }) {
  const old = cluster.facts.deprecatedApis;
  if (old.length === 0) return <p className="quiet">Nobody has asked for an API of late that Kubernetes will drop.</p>;
  return (
    <Table label="Old APIs" titles={["API", "Resource", "Gone in"]}>
      {old.map(({ group, version, resource, removedIn }) => (
        <tr key={`${group} ${version} ${resource}`}>
          <td>
            {group === null ? "" : `${group}/`}
            {version}
          </td>
          <td>{resource}</td>
          <td>{removedIn}</td>
        </tr>
      ))}
    </Table>
  );
}

function Upkeep({ cluster }: { readonly cluster: Cluster }) {
  const [asking, ask] = useState<"rotate" | "detach" | null>(null);
  const [rotated, rotate] = useMutation(RotateTokenDocument);
  const [detached, detach] = useMutation(DetachClusterDocument);
  const [, go] = useLocation();
  const error = rotated.error ?? detached.error;
  const token = rotated.data?.rotateClusterToken?.deployToken;
  const end = async () => {
    const result = asking === "rotate" ? await rotate({ id: cluster.id }) : await detach({ id: cluster.id });
    ask(null);
    if (result.error !== undefined || asking === "rotate") return;
    toast(`${cluster.handle} is forgotten here; everything in it stays.`);
    go("/clusters");
  };
  return (
    <div className="stack">
      <section className="card stack">
        <h2>Reach it with kubectl</h2>
        <pre className="block">{`towline kubeconfig ${cluster.handle} --merge\nkubectl --context towline-${cluster.handle} get pods -A`}</pre>
      </section>
      {error !== undefined && <Problem error={error} />}
      {token != null && <Secret title="The new deploy token" text={token} />}
      <section className="card stack">
        <h2>Its agent</h2>
        <div className="bar">
          <button type="button" onClick={() => ask("rotate")}>
            New deploy token…
          </button>
          <button type="button" className="danger" onClick={() => ask("detach")}>
            Forget this cluster…
          </button>
        </div>
      </section>
      {asking !== null && (
        <Confirm
          title={asking === "rotate" ? `A new token for ${cluster.handle}?` : `Forget ${cluster.handle}?`}
          action={asking === "rotate" ? "Make a new one" : "Forget it"}
          typed={asking === "detach" ? cluster.handle : undefined}
          onConfirm={() => void end()}
          onCancel={() => ask(null)}
        >
          <p>
            {asking === "rotate"
              ? "The old token ends at once: its agent stays away until it is given the new one."
              : "Its services are forgotten here. Everything in it stays as it is, and nobody looks after it."}
          </p>
        </Confirm>
      )}
    </div>
  );
}

/** One cluster: whether it is heard of, what runs there, who is in it, how it is reached. */
export function ClusterPage() {
  const { handle } = useParams<{ handle: string }>();
  const [{ data, error }] = useQuery({ query: ClusterDocument, variables: { handle } });
  const cluster = data?.cluster;
  useSubscription({ query: ClusterDeltaDocument, variables: { id: cluster?.id ?? null }, pause: cluster == null });
  if (error !== undefined && data == null) return <NotShown error={error} what="cluster" />;
  if (data == null) return <Skeleton lines={12} />;
  if (cluster == null) return <NotThere what="cluster" />;
  return (
    <article>
      <header className="service-head">
        <div>
          <p className="crumbs">
            <Link href="/clusters">Clusters</Link> {cluster.project !== null && <>/ {cluster.project.name}</>}
          </p>
          <h1>{cluster.handle}</h1>
        </div>
        <Presence pingedAt={cluster.pingedAt} />
        <span className="quiet">
          heard <Age at={cluster.pingedAt} staleAfter={AWAY} />, joined <Age at={cluster.insertedAt} />
        </span>
        <span className="fill" />
        {cluster.tags.map(({ name, value }) => (
          <span key={name} className="tag">
            {name}={value}
          </span>
        ))}
      </header>
      {cluster.agentAlarm !== null && (
        <ul className="problems">
          <li>{cluster.agentAlarm}</li>
        </ul>
      )}
      <Figures cluster={cluster} />
      <Tabs
        tabs={[
          { id: "services", title: "Services", content: () => <ServiceList filter={{ clusterId: cluster.id }} /> },
          { id: "open", title: "Who is in", content: () => <Streams handle={cluster.handle} /> },
          { id: "apis", title: "Old APIs", content: () => <OldApis cluster={cluster} /> },
          { id: "upkeep", title: "Reach and upkeep", content: () => <Upkeep cluster={cluster} /> },
        ]}
      />
    </article>
  );
}
