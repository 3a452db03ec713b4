import { useMemo } from "react";
import { useClient, useSubscription } from "urql";
import { Link } from "wouter";
import { ClusterDeltaDocument, ClustersDocument, type ClusterHealth, type ClusterRowFragment } from "../api/generated";
import { BulkButtons } from "../bulk/BulkButtons";
import { parseQuery, type Conditions } from "../lists/conditions";
import { List, type Column } from "../lists/List";
import { QueryField } from "../lists/QueryField";
import { labelConditions, tagConditions } from "../lists/serviceFilter";
import { Age } from "../ui/Age";
import { Chips } from "../ui/Chips";
import { Clip } from "../ui/Clip";
import { Empty } from "../ui/Empty";
import { STATES } from "../ui/states";
import { Status } from "../ui/Status";
import { useNow } from "../live/clock";
import { LAST_SEEN_INTERVAL } from "../live/useFollow";
import { useParam } from "../ui/useParam";
import { tagClusters } from "./bulkOperations";
import { OFFLINE_AFTER, isOffline } from "./offline";
import { NoClusters } from "./NoClusters";
import "./clusters.css";

const HEALTHS: readonly (readonly [ClusterHealth | "", string])[] = [
  ["", "All"],
  ["CONNECTED", STATES.connected.label],
  ["SILENT", STATES.offline.label],
  ["NEVER", STATES.neverConnected.label],
];

/** Connection state of a cluster's agent. */
export function Presence({ pingedAt }: { readonly pingedAt: string | null }) {
  const now = useNow();
  if (pingedAt === null) return <Status state={STATES.neverConnected} />;
  return <Status state={isOffline(pingedAt, now) ? STATES.offline : STATES.connected} />;
}

const idOf = ({ id }: ClusterRowFragment): string => id;

const COLUMNS: readonly Column<ClusterRowFragment>[] = [
  {
    id: "cluster",
    title: "Cluster",
    isLong: true,
    sort: ({ handle }) => handle,
    cell: ({ handle, name }) => (
      <>
        <Link href={`/clusters/${handle}`}>{handle}</Link> {name !== handle && <span className="quiet">{name}</span>}
      </>
    ),
  },
  {
    id: "agent",
    title: "Agent",
    cell: ({ pingedAt, agentAlarm }) =>
      agentAlarm === null ? (
        <Presence pingedAt={pingedAt} />
      ) : (
        <Clip>
          <Presence pingedAt={pingedAt} /> <Status state={STATES.failed} detail={agentAlarm} />
        </Clip>
      ),
  },
  { id: "seen", title: "Last seen", sort: ({ pingedAt }) => pingedAt, cell: ({ pingedAt }) => <Age at={pingedAt} staleAfter={OFFLINE_AFTER} /> },
  {
    id: "kubernetes",
    title: "Kubernetes",
    sort: ({ currentVersion }) => currentVersion,
    cell: ({ currentVersion, distro }) => (
      <>
        {currentVersion} <span className="quiet">{distro?.toLowerCase()}</span>
      </>
    ),
  },
  { id: "nodes", title: "Nodes", className: "number", sort: ({ nodeCount }) => nodeCount, cell: ({ nodeCount }) => nodeCount?.toLocaleString() },
  { id: "version", title: "Agent version", sort: ({ agentVersion }) => agentVersion, cell: ({ agentVersion }) => agentVersion },
  { id: "token", title: "Token ends", sort: ({ agentTokenExpiresAt }) => agentTokenExpiresAt, cell: ({ agentTokenExpiresAt }) => agentTokenExpiresAt?.slice(0, 10) },
  { id: "project", title: "Project", isLong: true, isOptional: true, sort: ({ project }) => project?.name, cell: ({ project }) => project?.name },
  {
    id: "tags",
    title: "Tags",
    isLong: true,
    cell: ({ tags }) =>
      tags.map(({ name, value }) => (
        <span key={name} className="tag">
          {name}={value}
        </span>
      )),
  },
];

const CONDITIONS: Conditions = { tag: { example: "tag:region=eu" }, label: { example: "label:team=a,tier!=web" } };

/** Table of all clusters with the state of their agents. */
export function ClustersPage() {
  const [q] = useParam("q");
  const [health] = useParam("health");
  useSubscription({ query: ClusterDeltaDocument });
  const client = useClient();
  const operations = useMemo(() => [tagClusters(client)], [client]);
  const parsed = parseQuery(q, CONDITIONS);
  return (
    <>
      <div className="bar">
        <h1>Clusters</h1>
        <QueryField label="Filter clusters" conditions={CONDITIONS} problems={parsed.problems} />
        <Chips label="Agent" name="health" options={HEALTHS} />
        <span className="fill" />
        <Link className="button" href="/clusters/groups">
          Cluster groups
        </Link>
        <Link className="button" href="/clusters/sources">
          Cluster sources
        </Link>
        <Link className="button primary" href="/clusters/new">
          Register cluster
        </Link>
      </div>
      <List
        label="Clusters"
        counted={["cluster", "clusters"]}
        columns={COLUMNS}
        query={ClustersDocument}
        variables={{ q: parsed.text || null, health: HEALTHS.find(([key]) => key === health)?.[0] || null, tags: tagConditions(parsed), labels: labelConditions(parsed) }}
        pick={(data) => data.clusters}
        id={idOf}
        name={({ handle }) => handle}
        bulk={(clusters) => <BulkButtons operations={operations} targets={clusters} />}
        follow={LAST_SEEN_INTERVAL}
        problems={parsed.problems}
        empty={<Nothing filtered={q !== "" || health !== ""} />}
      />
    </>
  );
}

function Nothing({ filtered }: { readonly filtered: boolean }) {
  if (filtered) return <Empty title="No matching clusters">Change the filter.</Empty>;
  return <NoClusters />;
}
