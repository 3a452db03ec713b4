import type { ServiceEventsQuery } from "../api/generated";
import { Age } from "../ui/Age";
import { Status } from "../ui/Status";
import { Table } from "../ui/Table";

/** What Kubernetes says has happened, newest first. */
export function EventsTable({ events }: { readonly events: ServiceEventsQuery["serviceEvents"] }) {
  if (events.length === 0) return <p className="quiet">The cluster tells of no events; it forgets them after an hour.</p>;
  return (
    <Table label="Events" titles={["Last", "Kind", "Object", "Reason", "What", "Times", "By"]}>
      {events.map((event, index) => (
        <tr key={index}>
          <td>
            <Age at={event.lastAt ?? event.firstAt} />
          </td>
          <td>
            <Status tone={event.type === "Warning" ? "warn" : "idle"}>{event.type}</Status>
          </td>
          <td>
            <span className="quiet">{event.kind}</span> {event.name}
          </td>
          <td>{event.reason}</td>
          <td className="wide">{event.message}</td>
          <td className="number">{event.count}</td>
          <td>{event.source}</td>
        </tr>
      ))}
    </Table>
  );
}
