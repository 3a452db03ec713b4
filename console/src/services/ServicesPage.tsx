import { Link } from "wouter";
import { useMemo } from "react";
import { useClient, useSubscription } from "urql";
import { ServiceDeltaDocument, ServicesDocument, type FleetFilter, type ServiceState } from "../api/generated";
import { NothingYet } from "../access/NothingYet";
import { LAST_SEEN_INTERVAL } from "../live/useFollow";
import { BulkButtons } from "../bulk/BulkButtons";
import { List } from "../lists/List";
import { QueryField } from "../lists/QueryField";
import { SERVICE_CONDITIONS, useServiceFilter } from "../lists/serviceFilter";
import { STATUSES } from "../fleet/statusCodes";
import { Chips } from "../ui/Chips";
import { Empty } from "../ui/Empty";
import { FilterField } from "../ui/FilterField";
import { serviceState } from "../ui/states";
import { useParam } from "../ui/useParam";
import { serviceOperations } from "./bulkOperations";
import { SERVICE_COLUMNS } from "./columns";
import { ServiceGraph } from "./ServiceGraph";

const OPTIONS: readonly (readonly [ServiceState | "", string])[] = [["", "All"], ...STATUSES.map((status) => [status, serviceState(status).label] as const)];

const VIEWS = [
  ["", "List"],
  ["graph", "Graph"],
] as const;

/** All services with live updates: a list, or the graph of those that need each other. */
export function ServicesPage() {
  const [view] = useParam("view");
  return view === "graph" ? <GraphView /> : <ListView />;
}

function GraphView() {
  return (
    <>
      <div className="bar">
        <h1>Services</h1>
        <Chips label="View" name="view" options={VIEWS} />
        <FilterField label="Filter services" />
        <span className="fill" />
        <NewService />
      </div>
      <ServiceGraph />
    </>
  );
}

function ListView() {
  const [q] = useParam("q");
  const [status] = useParam("status");
  const { filter, problems, isReady } = useServiceFilter(q, status);
  return (
    <>
      <div className="bar">
        <h1>Services</h1>
        <Chips label="View" name="view" options={VIEWS} />
        <QueryField label="Filter services" conditions={SERVICE_CONDITIONS} problems={problems} />
        <span className="fill" />
        <NewService />
      </div>
      <div className="bar">
        <Chips label="Status" name="status" options={OPTIONS} />
      </div>
      {isReady && <ServiceList filter={filter} problems={problems} />}
    </>
  );
}

const NewService = () => (
  <Link className="button primary" href="/services/new">
    New service
  </Link>
);

const idOf = ({ id }: { readonly id: string }): string => id;

/** Services that match a filter; loads more pages while the user scrolls. */
export function ServiceList({ filter, problems = [] }: { readonly filter: FleetFilter; readonly problems?: readonly string[] }) {
  useSubscription({ query: ServiceDeltaDocument });
  const client = useClient();
  const operations = useMemo(() => serviceOperations(client), [client]);
  return (
    <List
      label="Services"
      counted={["service", "services"]}
      columns={SERVICE_COLUMNS}
      query={ServicesDocument}
      variables={filter}
      pick={(data) => data.serviceDeployments}
      id={idOf}
      name={({ name }) => name}
      bulk={(services) => <BulkButtons operations={operations} targets={services} />}
      follow={LAST_SEEN_INTERVAL}
      problems={problems}
      empty={<NoServices filtered={Object.entries(filter).some(([name, value]) => name !== "clusterId" && value != null)} />}
    />
  );
}

function NoServices({ filtered }: { readonly filtered: boolean }) {
  if (filtered) return <Empty title="No matching services">Change the filter, or search everything with Ctrl-K.</Empty>;
  return (
    <NothingYet title="No services yet">
      <p>A service deploys a folder of a Git repository to a cluster.</p>
      <Link className="button primary" href="/services/new">
        Create service
      </Link>
    </NothingYet>
  );
}
