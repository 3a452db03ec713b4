import { useMemo, useState } from "react";
import { useMutation, useQuery, useSubscription } from "urql";
import { Link, useLocation, useParams } from "wouter";
import { ClusterDeltaDocument, ClusterDocument, DetachClusterDocument, RotateTokenDocument, type ClusterQuery } from "../api/generated";
import { ServiceList } from "../services/ServicesPage";
import { Age } from "../ui/Age";
import { Confirm } from "../ui/Confirm";
import { ResourceError, ResourceNotFound } from "../ui/ResourceNotFound";
import { Problem } from "../ui/Problem";
import { Secret } from "../ui/Secret";
import { Skeleton } from "../ui/Skeleton";
import { Table } from "../ui/Table";
import { Tabs } from "../ui/Tabs";
import { toast } from "../ui/toast";
import { freezeText } from "./freeze";
import { LastSeen } from "./LastSeen";
import { Presence } from "./ClustersPage";
import { Actions } from "../manage/Actions";
import { AsYaml } from "../manage/AsYaml";
import { ResourceList } from "../manage/ResourceList";
import { ActiveSessions } from "./ActiveSessions";
import { jobsOf } from "./jobs";
import { CLUSTER_ACTIONS } from "./operations";
import "./clusters.css";
import "../services/service.css";

type Cluster = NonNullable<ClusterQuery["cluster"]>;

const GIB = 2 ** 30;

function Figures({ cluster }: { readonly cluster: Cluster }) {
  const { facts } = cluster;
  const figures: (readonly [string, string])[] = [
    ["Kubernetes", cluster.currentVersion ?? "–"],
    ["Distribution", cluster.distro?.toLowerCase() ?? "–"],
    ["Nodes", cluster.nodeCount?.toLocaleString() ?? "–"],
    ["CPU", facts.cpuMillis === null ? "–" : `${Math.round(facts.cpuMillis / 100) / 10} cores`],
    ["Memory", facts.memoryBytes === null ? "–" : `${Math.round(facts.memoryBytes / GIB)} GiB`],
    ["Pod capacity", facts.podCapacity?.toLocaleString() ?? "–"],
    ["Agent", `${cluster.agentVersion ?? "–"}${cluster.agentMode === "MANAGED" ? "" : ` ${cluster.agentMode.toLowerCase()}`}`],
  ];
  const declared = cluster.agentSettings;
  if (declared !== null) {
    const { settings, conflicts, upgradeProblem } = declared;
    const notes = [settings.version, conflicts.length > 0 ? `conflict with ${conflicts.join(", ")}` : "", upgradeProblem ?? ""];
    figures.push(["Agent settings", [settings.name, ...notes.filter((note) => note !== "")].join(" · ")]);
  }
  return (
    <dl className="cluster-facts">
      {figures.map(([name, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}

function Jobs({ clusterId }: { readonly clusterId: string }) {
  const kind = useMemo(() => jobsOf(clusterId), [clusterId]);
  return <ResourceList kind={kind} />;
}

function DeprecatedApis({ cluster }: { readonly cluster: Cluster }) {
  const apis = cluster.facts.deprecatedApis;
  if (apis.length === 0) return <p className="quiet">No recent requests to deprecated Kubernetes APIs.</p>;
  return (
    <Table label="Deprecated APIs" titles={["API", "Resource", "Removed in"]}>
      {apis.map(({ group, version, resource, removedIn }) => (
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

function Maintenance({ cluster }: { readonly cluster: Cluster }) {
  const [dialog, setDialog] = useState<"rotate" | "detach" | null>(null);
  const [rotated, rotate] = useMutation(RotateTokenDocument);
  const [detached, detach] = useMutation(DetachClusterDocument);
  const [, go] = useLocation();
  const error = rotated.error ?? detached.error;
  const token = rotated.data?.rotateClusterToken?.deployToken;
  const end = async () => {
    const result = dialog === "rotate" ? await rotate({ id: cluster.id }) : await detach({ id: cluster.id });
    setDialog(null);
    if (result.error !== undefined || dialog === "rotate") return;
    toast(`${cluster.handle} removed from Towline; its workloads stay`);
    go("/clusters");
  };
  return (
    <div className="stack">
      <section className="card stack">
        <h2>Connect with kubectl</h2>
        <pre className="block">{`towline kubeconfig ${cluster.handle} --merge\nkubectl --context towline-${cluster.handle} get pods -A`}</pre>
      </section>
      {error !== undefined && <Problem error={error} />}
      {token != null && <Secret title="New deploy token" text={token} />}
      <section className="card stack">
        <h2>Cluster and agent</h2>
        <div className="bar">
          <Actions actions={CLUSTER_ACTIONS} node={cluster} />
          <button type="button" onClick={() => setDialog("rotate")}>
            Rotate deploy token…
          </button>
          <button type="button" className="danger" onClick={() => setDialog("detach")}>
            Remove cluster…
          </button>
        </div>
      </section>
      {dialog !== null && (
        <Confirm
          title={dialog === "rotate" ? `Rotate the deploy token of ${cluster.handle}?` : `Remove ${cluster.handle} from Towline?`}
          action={dialog === "rotate" ? "Rotate token" : "Remove cluster"}
          typed={dialog === "detach" ? cluster.handle : undefined}
          onConfirm={() => void end()}
          onCancel={() => setDialog(null)}
        >
          <p>
            {dialog === "rotate"
              ? "The old token stops working immediately. The agent stays offline until you configure the new token."
              : "Removes the cluster and its services from Towline. The workloads stay, and Towline no longer manages them."}
          </p>
        </Confirm>
      )}
    </div>
  );
}

/** Page of one cluster: agent, services, active sessions, deprecated APIs and maintenance. */
export function ClusterPage() {
  const { handle } = useParams<{ handle: string }>();
  const [{ data, error }] = useQuery({ query: ClusterDocument, variables: { handle } });
  const cluster = data?.cluster;
  useSubscription({ query: ClusterDeltaDocument, variables: { id: cluster?.id ?? null }, pause: cluster == null });
  if (error !== undefined && data == null) return <ResourceError error={error} kind="cluster" />;
  if (data == null) return <Skeleton lines={12} />;
  if (cluster == null) return <ResourceNotFound kind="cluster" />;
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
          last seen <LastSeen cluster={cluster} />, registered <Age at={cluster.insertedAt} />
        </span>
        <span className="fill" />
        {cluster.tags.map(({ name, value }) => (
          <span key={name} className="tag">
            {name}={value}
          </span>
        ))}
        <AsYaml kind="Cluster" name={cluster.handle} />
      </header>
      {cluster.agentAlarm !== null && (
        <ul className="problems">
          <li>{cluster.agentAlarm}</li>
        </ul>
      )}
      {cluster.freeze !== null && (
        <ul className="problems">
          <li className="note">{freezeText(cluster.freeze)}</li>
        </ul>
      )}
      <Figures cluster={cluster} />
      <Tabs
        tabs={[
          { id: "services", title: "Services", content: () => <ServiceList filter={{ clusterId: cluster.id }} /> },
          { id: "sessions", title: "Active sessions", content: () => <ActiveSessions handle={cluster.handle} /> },
          { id: "jobs", title: "Jobs", content: () => <Jobs clusterId={cluster.id} /> },
          { id: "apis", title: "Deprecated APIs", content: () => <DeprecatedApis cluster={cluster} /> },
          { id: "maintenance", title: "Connect & maintenance", content: () => <Maintenance cluster={cluster} /> },
        ]}
      />
    </article>
  );
}
