import { Link } from "wouter";
import { useSubscription } from "urql";
import { ServiceDeltaDocument, ServicesDocument, type ServiceDeploymentStatus } from "../api/generated";
import { Chips } from "../ui/Chips";
import { Empty } from "../ui/Empty";
import { FilterField } from "../ui/FilterField";
import { PagedTable } from "../ui/PagedTable";
import { useParam } from "../ui/useParam";
import { useRowKeys } from "../ui/useRowKeys";
import { SERVICE_TITLES, ServiceRow } from "./ServiceRow";

const STATUSES: readonly (readonly [ServiceDeploymentStatus | "", string])[] = [
  ["", "All"],
  ["FAILED", "Failed"],
  ["STALE", "On its way"],
  ["SYNCED", "Applied"],
  ["HEALTHY", "Healthy"],
  ["PAUSED", "Paused"],
];

export type Filter = { readonly q?: string; readonly status?: string; readonly clusterId?: string; readonly repositoryId?: string };

/** All services, what is wrong beside the name, kept true by the subscription. */
export function ServicesPage() {
  const [q] = useParam("q");
  const [status] = useParam("status");
  return (
    <>
      <div className="bar">
        <h1>Services</h1>
        <FilterField label="Filter services" />
        <Chips label="Status" name="status" options={STATUSES} />
        <span className="fill" />
        <Link className="button primary" href="/services/new">
          New service
        </Link>
      </div>
      <ServiceList filter={{ q, status }} />
    </>
  );
}

/** The services that fit a filter, page by page as one scrolls. */
export function ServiceList({ filter }: { readonly filter: Filter }) {
  useSubscription({ query: ServiceDeltaDocument });
  useRowKeys();
  const known = STATUSES.find(([status]) => status === filter.status)?.[0];
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
      empty={<NoServices filtered={Boolean(filter.q) || Boolean(filter.status)} />}
    />
  );
}

function NoServices({ filtered }: { readonly filtered: boolean }) {
  if (filtered) return <Empty title="No service is like that">Try fewer letters, or search everything with Ctrl-K.</Empty>;
  return (
    <Empty title="No services yet">
      <p>A service is a folder of a git repository that runs in a cluster.</p>
      <Link className="button primary" href="/services/new">
        Define the first one
      </Link>
    </Empty>
  );
}
