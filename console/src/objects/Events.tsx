import type { ServiceEventsQuery } from "../api/generated";
import { Age } from "../ui/Age";
import { Clip } from "../ui/Clip";
import { eventState } from "../ui/states";
import { Status } from "../ui/Status";
import { Table } from "../ui/Table";

/** Kubernetes Events, newest first. */
export function EventsTable({ events }: { readonly events: ServiceEventsQuery["serviceEvents"] }) {
  if (events.length === 0) return <p className="quiet">No events. Kubernetes deletes events after one hour by default.</p>;
  return (
    <Table label="Events" titles={["Last seen", "Type", "Object", "Reason", "Message", "Count", "From"]} numbers={["Count"]}>
      {events.map((event, index) => (
        <tr key={index}>
          <td>
            <Age at={event.lastAt ?? event.firstAt} />
          </td>
          <td>
            <Status state={eventState(event.type)} />
          </td>
          <td>
            <Clip>
              <span className="quiet">{event.kind}</span> {event.name}
            </Clip>
          </td>
          <td>
            <Clip>{event.reason}</Clip>
          </td>
          <td className="wide">{event.message}</td>
          <td className="number">{event.count}</td>
          <td>
            <Clip>{event.source}</Clip>
          </td>
        </tr>
      ))}
    </Table>
  );
}
