import { useState } from "react";
import { Link } from "wouter";
import { useQuery, useSubscription } from "urql";
import { ServiceDeltaDocument, ServicesDocument, type ServiceRowFragment } from "../api/generated";
import { Age } from "../ui/Age";
import { Empty } from "../ui/Empty";
import { FilterField } from "../ui/FilterField";
import { Problem } from "../ui/Problem";
import { Skeleton } from "../ui/Skeleton";
import { Status } from "../ui/Status";
import { useParam } from "../ui/useParam";
import { serviceStatus } from "./status";
import "../ui/table.css";

const AWAY = 60_000;

function Row({ service }: { readonly service: ServiceRowFragment }) {
  const { tone, word } = serviceStatus(service.status);
  const reason = service.errors[0]?.message ?? "";
  return (
    <tr>
      <td>
        <Link href={`/services/${service.id}`}>{service.name}</Link>
      </td>
      <td>{service.cluster?.handle ?? ""}</td>
      <td>{service.namespace}</td>
      <td>
        <Status tone={tone}>{word}</Status>
      </td>
      <td title={reason}>{reason}</td>
      <td>
        <code>{service.sha?.slice(0, 8) ?? "–"}</code>
      </td>
      <td>
        <Age at={service.cluster?.pingedAt ?? null} staleAfter={AWAY} never="agent never came" />
      </td>
    </tr>
  );
}

type SliceProps = { readonly q: string; readonly after: string | null; readonly onMore: (cursor: string) => void; readonly last: boolean };

function Slice({ q, after, onMore, last }: SliceProps) {
  const [{ data, error }] = useQuery({ query: ServicesDocument, variables: { q: q || null, after } });
  if (error !== undefined && data === undefined) return <ErrorRow error={error} />;
  if (data === undefined) return <LoadingRow />;
  const { edges, pageInfo } = data.serviceDeployments;
  if (after === null && edges.length === 0) return <EmptyRow filtered={q !== ""} />;
  const cursor = pageInfo.endCursor;
  return (
    <>
      {edges.map(({ node }) => (
        <Row key={node.id} service={node} />
      ))}
      {last && pageInfo.hasNextPage && cursor !== null && (
        <tr>
          <td colSpan={7}>
            <button type="button" onClick={() => onMore(cursor)}>
              More
            </button>
          </td>
        </tr>
      )}
    </>
  );
}

function ErrorRow({ error }: { readonly error: Parameters<typeof Problem>[0]["error"] }) {
  return (
    <tr>
      <td colSpan={7}>
        <Problem error={error} />
      </td>
    </tr>
  );
}

function LoadingRow() {
  return (
    <tr>
      <td colSpan={7}>
        <Skeleton lines={6} />
      </td>
    </tr>
  );
}

function EmptyRow({ filtered }: { readonly filtered: boolean }) {
  return (
    <tr>
      <td colSpan={7} className="wide">
        {filtered ? (
          <Empty title="No service has that in its name">Try fewer letters, or search everything with Ctrl-K.</Empty>
        ) : (
          <Empty title="No services yet">
            A service is a folder of a git repository that runs in a cluster:{" "}
            <code>towline services create NAME --cluster HANDLE --repo URL --folder PATH</code>
          </Empty>
        )}
      </td>
    </tr>
  );
}

/** All services, what is wrong beside the name, kept true by the subscription. */
export function ServicesPage() {
  const [q] = useParam("q");
  return (
    <>
      <div className="bar">
        <h1>Services</h1>
        <FilterField label="Filter services" />
      </div>
      <Pages key={q} q={q} />
    </>
  );
}

function Pages({ q }: { readonly q: string }) {
  const [cursors, setCursors] = useState<readonly (string | null)[]>([null]);
  useSubscription({ query: ServiceDeltaDocument });
  return (
    <table className="table">
      <thead>
        <tr>
          {["Service", "Cluster", "Namespace", "Status", "Reason", "Commit", "Heard"].map((title) => (
            <th key={title} scope="col">
              {title}
            </th>
          ))}
        </tr>
      </thead>
      <tbody>
        {cursors.map((after, index) => (
          <Slice
            key={after ?? ""}
            q={q}
            after={after}
            last={index === cursors.length - 1}
            onMore={(cursor) => setCursors((known) => [...known, cursor])}
          />
        ))}
      </tbody>
    </table>
  );
}
