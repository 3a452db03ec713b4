import { useSubscription } from "urql";
import { Link } from "wouter";
import { ClusterDeltaDocument, ClustersDocument, type ClusterHealth, type ClusterRowFragment } from "../api/generated";
import { Age } from "../ui/Age";
import { Chips } from "../ui/Chips";
import { Empty } from "../ui/Empty";
import { FilterField } from "../ui/FilterField";
import { PagedTable } from "../ui/PagedTable";
import { STATES } from "../ui/states";
import { Status } from "../ui/Status";
import { useNow } from "../live/clock";
import { LAST_SEEN_INTERVAL } from "../live/useFollow";
import { useParam } from "../ui/useParam";
import { useRowKeys } from "../ui/useRowKeys";
import { OFFLINE_AFTER, isOffline } from "./offline";
import { NoClusters } from "./NoClusters";
import "./clusters.css";

const HEALTHS: readonly (readonly [ClusterHealth | "", string])[] = [
  ["", "All"],
  ["CONNECTED", STATES.connected.label],
  ["SILENT", STATES.offline.label],
  ["NEVER", STATES.neverConnected.label],
];
const TITLES = ["Cluster", "Agent", "Last seen", "Kubernetes", "Nodes", "Agent version", "Token ends", "Tags"];

/** Connection state of a cluster's agent. */
export function Presence({ pingedAt }: { readonly pingedAt: string | null }) {
  const now = useNow();
  if (pingedAt === null) return <Status state={STATES.neverConnected} />;
  return <Status state={isOffline(pingedAt, now) ? STATES.offline : STATES.connected} />;
}

function Row({ cluster }: { readonly cluster: ClusterRowFragment }) {
  return (
    <tr>
      <td>
        <Link href={`/clusters/${cluster.handle}`}>{cluster.handle}</Link> {cluster.name !== cluster.handle && <span className="quiet">{cluster.name}</span>}
      </td>
      <td title={cluster.agentAlarm ?? ""}>
        <Presence pingedAt={cluster.pingedAt} /> {cluster.agentAlarm !== null && <Status state={STATES.failed} detail={cluster.agentAlarm} />}
      </td>
      <td>
        <Age at={cluster.pingedAt} staleAfter={OFFLINE_AFTER} />
      </td>
      <td>
        {cluster.currentVersion} <span className="quiet">{cluster.distro?.toLowerCase()}</span>
      </td>
      <td className="number">{cluster.nodeCount?.toLocaleString()}</td>
      <td>{cluster.agentVersion}</td>
      <td>{cluster.agentTokenExpiresAt?.slice(0, 10)}</td>
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

/** Table of all clusters with the state of their agents. */
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
        <Link className="button" href="/clusters/groups">
          Cluster groups
        </Link>
        <Link className="button primary" href="/clusters/new">
          Register cluster
        </Link>
      </div>
      <PagedTable
        label="Clusters"
        titles={TITLES}
        query={ClustersDocument}
        variables={{ q: q || null, health: HEALTHS.find(([key]) => key === health)?.[0] || null }}
        pick={(data) => data.clusters}
        row={(cluster) => <Row key={cluster.id} cluster={cluster} />}
        counted={["cluster", "clusters"]}
      follow={LAST_SEEN_INTERVAL}
        empty={<Nothing filtered={q !== "" || health !== ""} />}
      />
    </>
  );
}

function Nothing({ filtered }: { readonly filtered: boolean }) {
  if (filtered) return <Empty title="No matching clusters">Change the filter.</Empty>;
  return <NoClusters />;
}
