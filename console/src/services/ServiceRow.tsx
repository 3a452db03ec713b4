import { Link } from "wouter";
import type { ServiceRowFragment } from "../api/generated";
import { OFFLINE_AFTER } from "../clusters/offline";
import { Age } from "../ui/Age";
import { Status } from "../ui/Status";
import { serviceState } from "../ui/states";

export const SERVICE_TITLES = ["Service", "Cluster", "Namespace", "Status", "Reason", "Commit", "Changed", "Last seen"];

/** One service as a table row. */
export function ServiceRow({ service }: { readonly service: ServiceRowFragment }) {
  const reason = service.errors[0]?.message ?? service.message ?? (service.waiting ? "waiting for dependencies to become healthy" : "");
  return (
    <tr>
      <td>
        <Link href={`/services/${service.id}`}>{service.name}</Link>
      </td>
      <td>{service.cluster === null ? "" : <Link href={`/clusters/${service.cluster.handle}`}>{service.cluster.handle}</Link>}</td>
      <td>{service.namespace}</td>
      <td>
        <Status state={serviceState(service.status, service.commitsBehind)} pill />
      </td>
      <td title={reason}>{reason}</td>
      <td>
        <code>{service.sha?.slice(0, 8) ?? "–"}</code>
      </td>
      <td>
        <Age at={service.updatedAt} />
      </td>
      <td>
        <Age at={service.cluster?.pingedAt ?? null} staleAfter={OFFLINE_AFTER} never="never connected" />
      </td>
    </tr>
  );
}
