import { useSubscription } from "urql";
import { Link } from "wouter";
import { ClusterDeltaDocument, ClustersDocument, type ClusterHealth, type ClusterRowFragment } from "../api/generated";
import { Age } from "../ui/Age";
import { Chips } from "../ui/Chips";
import { Empty } from "../ui/Empty";
import { FilterField } from "../ui/FilterField";
import { PagedTable } from "../ui/PagedTable";
import { Status } from "../ui/Status";
import { useNow } from "../live/clock";
import { useParam } from "../ui/useParam";
import { useRowKeys } from "../ui/useRowKeys";
import { AWAY, isAway } from "./away";
import { NoClusters } from "./NoClusters";
import "./clusters.css";

const HEALTHS: readonly (readonly [ClusterHealth | "", string])[] = [
  ["", "All"],
  ["CONNECTED", "Connected"],
  ["SILENT", "Silent"],
  ["NEVER", "Never came"],
];
const TITLES = ["Cluster", "Agent", "Heard", "Kubernetes", "Nodes", "Version", "Tags"];

/** Whether a cluster's agent is there, in a word. */
export function Presence({ pingedAt }: { readonly pingedAt: string | null }) {
  const now = useNow();
  if (pingedAt === null) return <Status tone="idle">Never came</Status>;
  return isAway(pingedAt, now) ? <Status tone="warn">Silent</Status> : <Status tone="ok">Connected</Status>;
}

function Row({ cluster }: { readonly cluster: ClusterRowFragment }) {
  return (
    <tr>
      <td>
        <Link href={`/clusters/${cluster.handle}`}>{cluster.handle}</Link> {cluster.name !== cluster.handle && <span className="quiet">{cluster.name}</span>}
      </td>
      <td title={cluster.agentAlarm ?? ""}>
        <Presence pingedAt={cluster.pingedAt} /> {cluster.agentAlarm !== null && <Status tone="bad">{cluster.agentAlarm}</Status>}
      </td>
      <td>
        <Age at={cluster.pingedAt} staleAfter={AWAY} />
      </td>
      <td>
        {cluster.currentVersion} <span className="quiet">{cluster.distro?.toLowerCase()}</span>
      </td>
      <td className="number">{cluster.nodeCount}</td>
      <td>{cluster.agentVersion}</td>
      <td>
        {cluster.tags.map(({ name, value }) => (
          <span key={name} className="tag">
            {name}={value}
          </span>
        ))}
      </td>
    </tr>
  );
}

/** All clusters, and when each was last heard of. */
export function ClustersPage() {
  const [q] = useParam("q");
  const [health] = useParam("health");
  useSubscription({ query: ClusterDeltaDocument });
  useRowKeys();
  return (
    <>
      <div className="bar">
        <h1>Clusters</h1>
        <FilterField label="Filter clusters" />
        <Chips label="Agent" name="health" options={HEALTHS} />
        <span className="fill" />
        <Link className="button primary" href="/clusters/new">
          Join a cluster
        </Link>
      </div>
      <PagedTable
        label="Clusters"
        titles={TITLES}
        query={ClustersDocument}
        variables={{ q: q || null, health: HEALTHS.find(([one]) => one === health)?.[0] || null }}
        pick={(data) => data.clusters}
        row={(cluster) => <Row key={cluster.id} cluster={cluster} />}
        counted={["cluster", "clusters"]}
        empty={<Nothing filtered={q !== "" || health !== ""} />}
      />
    </>
  );
}

function Nothing({ filtered }: { readonly filtered: boolean }) {
  if (filtered) return <Empty title="No cluster is like that">Try fewer letters.</Empty>;
  return <NoClusters />;
}
