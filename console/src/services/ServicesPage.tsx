import { useCallback, useState } from "react";
import { Link } from "wouter";
import { useQuery, useSubscription } from "urql";
import { ServiceDeltaDocument, ServicesDocument, type ServiceDeploymentStatus } from "../api/generated";
import { Chips } from "../ui/Chips";
import { Empty } from "../ui/Empty";
import { FilterField } from "../ui/FilterField";
import { More } from "../ui/More";
import { Problem } from "../ui/Problem";
import { Skeleton } from "../ui/Skeleton";
import { Table } from "../ui/Table";
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
      <ServiceList key={`${q} ${status}`} filter={{ q, status }} />
    </>
  );
}

/** The services that fit a filter, page by page as one scrolls. */
export function ServiceList({ filter }: { readonly filter: Filter }) {
  const [cursors, setCursors] = useState<readonly (string | null)[]>([null]);
  useSubscription({ query: ServiceDeltaDocument });
  useRowKeys();
  const more = useCallback((cursor: string) => setCursors((known) => (known.includes(cursor) ? known : [...known, cursor])), []);
  return cursors.map((after, index) => (
    <Slice key={after ?? ""} filter={filter} after={after} onMore={more} last={index === cursors.length - 1} />
  ));
}

type SliceProps = { readonly filter: Filter; readonly after: string | null; readonly onMore: (cursor: string) => void; readonly last: boolean };

function Slice({ filter, after, onMore, last }: SliceProps) {
  const known = STATUSES.find(([status]) => status === filter.status)?.[0];
  const variables = {
    q: filter.q || null,
    clusterId: filter.clusterId ?? null,
    repositoryId: filter.repositoryId ?? null,
    status: known ? [known] : null,
    after,
  };
  const [{ data, error }] = useQuery({ query: ServicesDocument, variables });
  const cursor = data?.serviceDeployments.pageInfo.endCursor ?? null;
  const next = useCallback(() => cursor !== null && onMore(cursor), [cursor, onMore]);
  if (error !== undefined && data == null) return <Problem error={error} />;
  if (data == null) return <Skeleton lines={8} />;
  const { edges, pageInfo, totalCount, totalCountKind } = data.serviceDeployments;
  if (after === null && edges.length === 0) return <NoServices filtered={Boolean(filter.q ?? filter.status)} />;
  return (
    <>
      {after === null && totalCount !== null && (
        <p className="quiet count">
          {totalCountKind === "AT_LEAST" && "more than "}
          {totalCount.toLocaleString()} {totalCount === 1 ? "service" : "services"}
        </p>
      )}
      <Table label="Services" titles={SERVICE_TITLES}>
        {edges.map(({ node }) => (
          <ServiceRow key={node.id} service={node} />
        ))}
      </Table>
      {last && pageInfo.hasNextPage && <More onMore={next} />}
    </>
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
