import { useQuery } from "urql";
import { Link } from "wouter";
import { FailedServicesDocument, type FleetFilter, type MapRowFragment } from "../api/generated";
import { OFFLINE_AFTER } from "../clusters/offline";
import { useRefetch } from "../live/useRefetch";
import { counted } from "../text/counts";
import { duration } from "../text/time";
import { Age } from "../ui/Age";
import { Problem } from "../ui/Problem";
import { Skeleton } from "../ui/Skeleton";
import { STATES } from "../ui/states";
import { countOf } from "./layout";
import { count, letterOf } from "./statusCodes";

const MAX_OFFLINE = 5;

type Props = { readonly rows: readonly MapRowFragment[]; readonly filter: FleetFilter; readonly now: number; readonly moves: number };

/** Says no more than the shown services allow: a filter may match none, and some may not be healthy yet. */
function NothingFailed({ rows }: { readonly rows: readonly MapRowFragment[] }) {
  const total = countOf(rows);
  const healthy = count(rows).get(letterOf("HEALTHY")) ?? 0;
  if (total === 0) return <p className="quiet">No services shown</p>;
  if (healthy < total) return <p className="quiet">{`No failed services; ${healthy.toLocaleString()} of ${counted(total, "service")} healthy`}</p>;
  return <p className="all-healthy">{STATES.healthy.shape} All shown services healthy</p>;
}

/** Failed services, followed by clusters whose agent is offline. */
export function NeedsAttention({ rows, filter, now, moves }: Props) {
  const failed = rows.map(({ id, services }) => `${id} ${services.split("F").length}`).join();
  const offline = rows.filter(({ pingedAt }) => pingedAt === null || now - new Date(pingedAt).getTime() > OFFLINE_AFTER);
  const [{ data, error }, refetch] = useQuery({ query: FailedServicesDocument, variables: { ...filter, status: ["FAILED"] } });
  // The map is live; the list is fetched again when a number of failures changes.
  useRefetch(refetch, moves === 0 ? "" : failed, JSON.stringify(filter));
  if (error !== undefined && data == null) return <Problem error={error} />;
  if (data == null) return <Skeleton lines={5} />;
  const { edges, totalCount } = data.serviceDeployments;
  return (
    <section className="card" aria-labelledby="attention">
      <h2 id="attention">
        Needs attention <small>{edges.length === 0 && offline.length === 0 ? "none" : [counted(totalCount ?? edges.length, "service"), counted(offline.length, "cluster")].join(", ")}</small>
      </h2>
      {edges.length === 0 && offline.length === 0 && <NothingFailed rows={rows} />}
      <ul className="attention">
        {edges.map(({ node }) => (
          <li key={node.id} className={`tone-${STATES.failed.tone}`}>
            <Link href={`/services/${node.id}`}>
              {node.cluster?.handle}/{node.name}
            </Link>
            <Age at={node.updatedAt} />
            <p>{node.errors[0]?.message ?? node.message ?? "no reason reported"}</p>
          </li>
        ))}
        {offline.slice(0, MAX_OFFLINE).map(({ id, handle, pingedAt }) => (
          <li key={id} className={`tone-${STATES.offline.tone}`}>
            <Link href={`/clusters/${handle}`}>{handle}</Link>
            <Age at={pingedAt} staleAfter={OFFLINE_AFTER} never="never connected" />
            <p>{pingedAt === null ? "Agent has never connected" : `Agent offline; data from ${duration(now - new Date(pingedAt).getTime())} ago`}</p>
          </li>
        ))}
      </ul>
      {offline.length > MAX_OFFLINE && <Link href="/clusters?health=NEVER">Show {offline.length - MAX_OFFLINE} more offline clusters</Link>}
      {totalCount !== null && totalCount > edges.length && <Link href="/services?status=FAILED">Show all {totalCount.toLocaleString()} failed services</Link>}
    </section>
  );
}
