import { useState } from "react";
import { useQuery, useSubscription } from "urql";
import { Link } from "wouter";
import { ClusterDeltaDocument, ClustersDocument, type ClusterRowFragment } from "../api/generated";
import { Age } from "../ui/Age";
import { Empty } from "../ui/Empty";
import { FilterField } from "../ui/FilterField";
import { Problem } from "../ui/Problem";
import { Skeleton } from "../ui/Skeleton";
import { useParam } from "../ui/useParam";
import "../ui/table.css";

const AWAY = 60_000;

function Row({ cluster }: { readonly cluster: ClusterRowFragment }) {
  return (
    <tr>
      <td>
        <Link href={`/clusters/${cluster.handle}`}>{cluster.handle}</Link>
      </td>
      <td>{cluster.name}</td>
      <td>
        <Age at={cluster.pingedAt} staleAfter={AWAY} never="agent never came" />
      </td>
      <td>{cluster.currentVersion}</td>
      <td>{cluster.nodeCount}</td>
      <td>{cluster.agentVersion}</td>
      <td>{cluster.tags.map(({ name, value }) => `${name}=${value}`).join(" ")}</td>
    </tr>
  );
}

/** All clusters, and when each was last heard of. */
export function ClustersPage() {
  const [q] = useParam("q");
  useSubscription({ query: ClusterDeltaDocument });
  return (
    <>
      <div className="bar">
        <h1>Clusters</h1>
        <FilterField label="Filter clusters" />
      </div>
      <Rows key={q} q={q} />
    </>
  );
}

function Rows({ q }: { readonly q: string }) {
  const [after, setAfter] = useState<string | null>(null);
  const [{ data, error }] = useQuery({ query: ClustersDocument, variables: { q: q || null, after } });
  if (error !== undefined && data === undefined) return <Problem error={error} />;
  if (data === undefined) return <Skeleton lines={8} />;
  const { edges, pageInfo } = data.clusters;
  if (edges.length === 0 && after === null) return <NoClusters filtered={q !== ""} />;
  return (
    <>
      <table className="table">
        <thead>
          <tr>
            {["Cluster", "Name", "Heard", "Kubernetes", "Nodes", "Agent", "Tags"].map((title) => (
              <th key={title} scope="col">
                {title}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {edges.map(({ node }) => (
            <Row key={node.id} cluster={node} />
          ))}
        </tbody>
      </table>
      {pageInfo.hasNextPage && (
        <button type="button" onClick={() => setAfter(pageInfo.endCursor)}>
          Next page
        </button>
      )}
    </>
  );
}

function NoClusters({ filtered }: { readonly filtered: boolean }) {
  if (filtered) return <Empty title="No cluster has that in its name">Try fewer letters.</Empty>;
  return (
    <Empty title="No clusters yet">
      <code>towline clusters create NAME</code> prints the command that joins one. Nothing has to reach into it.
    </Empty>
  );
}
