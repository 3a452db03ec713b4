import { useQuery } from "urql";
import { DeliveryGroupsDocument, DeliveryOfDocument } from "../api/generated";
import { Problem } from "../ui/Problem";
import { Skeleton } from "../ui/Skeleton";
import { Table } from "../ui/Table";
import { useParam } from "../ui/useParam";
import { percent, rate, seconds } from "./format";

type RowProps = { readonly name: string; readonly since: string; readonly until: string; readonly projectId?: string; readonly clusterId?: string; readonly onOpen: () => void };

function Row({ name, since, until, projectId, clusterId, onOpen }: RowProps) {
  const [{ data }] = useQuery({ query: DeliveryOfDocument, variables: { since, until, projectId: projectId ?? null, clusterId: clusterId ?? null } });
  const report = data?.deliveryReport;
  const cells = report === undefined ? ["…", "", "", "", ""] : [report.total.begun.toLocaleString("en"), rate(report.deploymentsPerDay), seconds(report.leadP50), percent(report.total.failureRate), seconds(report.restoreP50)];
  return (
    <tr>
      <td>
        <button type="button" className="link" onClick={onOpen}>
          {name}
        </button>
      </td>
      {cells.map((cell, index) => (
        <td key={index} className="number">
          {cell}
        </td>
      ))}
    </tr>
  );
}

/** Metrics by project and by cluster; a name filters the page. */
export function Breakdown({ since, until }: { readonly since: string; readonly until: string }) {
  const [{ data, error }] = useQuery({ query: DeliveryGroupsDocument });
  const [, setProject] = useParam("project");
  const [, setCluster] = useParam("cluster");
  if (error !== undefined && data == null) return <Problem error={error} />;
  if (data == null) return <Skeleton lines={4} />;
  const titles = ["Deployments", "Rate", "Lead time", "Failure rate", "Time to restore"];
  return (
    <div className="stack">
      <Table label="By project" titles={["Project", ...titles]} numbers={titles}>
        {data.projects.edges.map(({ node: { id, name } }) => (
          <Row key={id} name={name} since={since} until={until} projectId={id} onOpen={() => setProject(id)} />
        ))}
      </Table>
      <Table label="By cluster" titles={["Cluster", ...titles]} numbers={titles}>
        {data.clusters.edges.map(({ node: { id, handle } }) => (
          <Row key={id} name={handle} since={since} until={until} clusterId={id} onOpen={() => setCluster(id)} />
        ))}
      </Table>
    </div>
  );
}
