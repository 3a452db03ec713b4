import { Link } from "wouter";
import { Age } from "../ui/Age";
import { Person } from "../ui/Person";
import { Status } from "../ui/Status";
import { Table } from "../ui/Table";
import { resultOf, took, type Deployment } from "./deployments";

/** Deployments with their result; a name leads to the history of the service. */
export function DeploymentList({ deployments }: { readonly deployments: readonly Deployment[] }) {
  if (deployments.length === 0) return <p className="quiet">No deployments in this period.</p>;
  return (
    <Table label="Deployments" titles={["Service", "Result", "Duration", "Commit", "Caused by", "Started"]}>
      {deployments.map((deployment) => (
        <tr key={`${deployment.serviceId} ${deployment.sequence}`}>
          <td>
            <Link href={`/services/${deployment.serviceId}?tab=history`}>
              {deployment.cluster ?? "deleted cluster"}/{deployment.service ?? "deleted service"}
            </Link>
          </td>
          <td>
            <Status state={resultOf(deployment)} />
          </td>
          <td>{took(deployment)}</td>
          <td>
            <code>{deployment.sha?.slice(0, 8)}</code>
          </td>
          <td className="wide">
            <Person author={deployment.actor} />
          </td>
          <td>
            <Age at={deployment.desiredAt} />
          </td>
        </tr>
      ))}
    </Table>
  );
}
