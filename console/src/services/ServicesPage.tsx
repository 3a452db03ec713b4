import { Link } from "wouter";
import { useSubscription } from "urql";
import { ServiceDeltaDocument, ServicesDocument, type ServiceState } from "../api/generated";
import { NothingYet } from "../access/NothingYet";
import { LAST_SEEN_INTERVAL } from "../live/useFollow";
import { STATUSES } from "../fleet/statusCodes";
import { Chips } from "../ui/Chips";
import { Empty } from "../ui/Empty";
import { FilterField } from "../ui/FilterField";
import { PagedTable } from "../ui/PagedTable";
import { serviceState } from "../ui/states";
import { useParam } from "../ui/useParam";
import { useRowKeys } from "../ui/useRowKeys";
import { SERVICE_TITLES, ServiceRow } from "./ServiceRow";

const OPTIONS: readonly (readonly [ServiceState | "", string])[] = [["", "All"], ...STATUSES.map((status) => [status, serviceState(status).label] as const)];

export type Filter = { readonly q?: string; readonly status?: string; readonly clusterId?: string; readonly repositoryId?: string };

/** Table of all services with live updates. */
export function ServicesPage() {
  const [q] = useParam("q");
  const [status] = useParam("status");
  return (
    <>
      <div className="bar">
        <h1>Services</h1>
        <FilterField label="Filter services" />
        <Chips label="Status" name="status" options={OPTIONS} />
        <span className="fill" />
        <Link className="button primary" href="/services/new">
          New service
        </Link>
      </div>
      <ServiceList filter={{ q, status }} />
    </>
  );
}

/** Services that match a filter; loads more pages while the user scrolls. */
export function ServiceList({ filter }: { readonly filter: Filter }) {
  useSubscription({ query: ServiceDeltaDocument });
  useRowKeys();
  const known = OPTIONS.find(([status]) => status === filter.status)?.[0];
  const variables = {
    q: filter.q || null,
    clusterId: filter.clusterId ?? null,
    repositoryId: filter.repositoryId ?? null,
    status: known ? [known] : null,
  };
  return (
    <PagedTable
      label="Services"
      titles={SERVICE_TITLES}
      query={ServicesDocument}
      variables={variables}
      pick={(data) => data.serviceDeployments}
      row={(service) => <ServiceRow key={service.id} service={service} />}
      counted={["service", "services"]}
      follow={LAST_SEEN_INTERVAL}
      empty={<NoServices filtered={Boolean(filter.q) || Boolean(filter.status)} />}
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
