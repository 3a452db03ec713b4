import { Link } from "wouter";
import type { ServiceRowFragment } from "../api/generated";
import { AWAY } from "../clusters/away";
import { Age } from "../ui/Age";
import { Status } from "../ui/Status";
import { serviceStatus } from "./status";

export const SERVICE_TITLES = ["Service", "Cluster", "Namespace", "Status", "Reason", "Commit", "Changed", "Heard"];

/** A service on one line: the name first, the age of what is known last. */
export function ServiceRow({ service }: { readonly service: ServiceRowFragment }) {
  const { tone, word } = serviceStatus(service.status);
  const reason = service.errors[0]?.message ?? service.message ?? (service.waiting ? "waits for services that it depends on" : "");
  return (
    <tr>
      <td>
        <Link href={`/services/${service.id}`}>{service.name}</Link>
      </td>
      <td>{service.cluster === null ? "" : <Link href={`/clusters/${service.cluster.handle}`}>{service.cluster.handle}</Link>}</td>
      <td>{service.namespace}</td>
      <td>
        <Status tone={tone} pill>
          {word}
        </Status>
      </td>
      <td title={reason}>{reason}</td>
      <td>
        <code>{service.sha?.slice(0, 8) ?? "–"}</code>
      </td>
      <td>
        <Age at={service.updatedAt} />
      </td>
      <td>
        <Age at={service.cluster?.pingedAt ?? null} staleAfter={AWAY} never="agent never came" />
      </td>
    </tr>
  );
}
