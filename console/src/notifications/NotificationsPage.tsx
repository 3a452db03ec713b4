import { Link } from "wouter";
import { AppNotificationsDocument, type AppNotificationsQuery } from "../api/generated";
import { ResourceList } from "../manage/ResourceList";
import { Age } from "../ui/Age";
import { Empty } from "../ui/Empty";
import { FilterField } from "../ui/FilterField";
import { PagedTable } from "../ui/PagedTable";
import { STATES } from "../ui/states";
import { Status } from "../ui/Status";
import { Tabs } from "../ui/Tabs";
import { useParam } from "../ui/useParam";
import { DELIVERIES } from "./deliveries";
import { RULES } from "./rules";
import { SINKS } from "./sinks";

type Event = AppNotificationsQuery["appNotifications"]["edges"][number]["node"];

const SEVERITY = { INFO: STATES.normal, WARNING: STATES.warning, ERROR: STATES.failed };

function subjectPath({ serviceId, pipelineId }: Event): string | null {
  if (serviceId !== null) return `/services/${serviceId}`;
  return pipelineId === null ? null : `/pipelines/${pipelineId}`;
}

function Events() {
  const [q] = useParam("q");
  return (
    <div className="stack">
      <div className="bar">
        <h2>Events</h2>
        <FilterField label="Filter events" />
      </div>
      <PagedTable
        label="Events"
        titles={["Subject", "Event", "Severity", "Message", "Time"]}
        query={AppNotificationsDocument}
        variables={{ q: q || null }}
        pick={(data) => data.appNotifications}
        row={(event) => {
          const path = subjectPath(event);
          return (
            <tr key={event.id}>
              <td className="wide">{path === null ? event.subject : <Link href={path}>{event.subject}</Link>}</td>
              <td>
                <code>{event.kind}</code>
              </td>
              <td>
                <Status state={SEVERITY[event.severity]} />
              </td>
              <td className="wide">{event.text}</td>
              <td>
                <Age at={event.at} />
              </td>
            </tr>
          );
        }}
        follow={10_000}
        empty={<Empty title={q === "" ? "No events yet" : "No matching events"}>Failures, recoveries, drift and decisions of the last 90 days appear here.</Empty>}
      />
    </div>
  );
}

/** Events, and the rules that send them to sinks. */
export function NotificationsPage() {
  return (
    <>
      <h1>Notifications</h1>
      <Tabs
        tabs={[
          { id: "events", title: "Events", content: () => <Events /> },
          { id: "rules", title: "Rules", content: () => <ResourceList key="rules" kind={RULES} /> },
          { id: "sinks", title: "Sinks", content: () => <ResourceList key="sinks" kind={SINKS} /> },
          { id: "deliveries", title: "Deliveries", content: () => <ResourceList key="deliveries" kind={DELIVERIES} /> },
        ]}
      />
    </>
  );
}
