import { useQuery } from "urql";
import { Link } from "wouter";
import { WrongDocument, type MapRowFragment } from "../api/generated";
import { AWAY } from "../clusters/away";
import { useAgain } from "../live/useAgain";
import { counted } from "../text/counts";
import { Age } from "../ui/Age";
import { Problem } from "../ui/Problem";
import { Skeleton } from "../ui/Skeleton";

const MOST_SILENT = 5;

type Props = { readonly rows: readonly MapRowFragment[]; readonly q: string; readonly now: number; readonly moves: number };

/** What needs somebody, worst first: failed services, then clusters that are not heard of. */
export function WrongNow({ rows, q, now, moves }: Props) {
  const failed = rows.map(({ id, services }) => `${id} ${services.split("F").length}`).join();
  const silent = rows.filter(({ pingedAt }) => pingedAt === null || now - new Date(pingedAt).getTime() > AWAY);
  const [{ data, error }, again] = useQuery({ query: WrongDocument, variables: { q: q || null, projectId: null, status: ["FAILED"] } });
  // The map is live; the list follows when its failures move.
  useAgain(again, moves === 0 ? "" : failed, q);
  if (error !== undefined && data == null) return <Problem error={error} />;
  if (data == null) return <Skeleton lines={5} />;
  const { edges, totalCount } = data.serviceDeployments;
  return (
    <section className="card" aria-labelledby="wrong">
      <h2 id="wrong">
        Wrong now <small>{edges.length === 0 && silent.length === 0 ? "nothing" : [counted(totalCount ?? edges.length, "service"), counted(silent.length, "cluster")].join(", ")}</small>
      </h2>
      {edges.length === 0 && silent.length === 0 && <p className="all-well">● Every service that is applied is fine.</p>}
      <ul className="wrong">
        {edges.map(({ node }) => (
          <li key={node.id} className="tone-bad">
            <Link href={`/services/${node.id}`}>
              {node.cluster?.handle}/{node.name}
            </Link>
            <Age at={node.updatedAt} />
            <p>{node.errors[0]?.message ?? node.message ?? "failed without a reason"}</p>
          </li>
        ))}
        {silent.slice(0, MOST_SILENT).map(({ id, handle, pingedAt }) => (
          <li key={id} className="tone-warn">
            <Link href={`/clusters/${handle}`}>{handle}</Link>
            <Age at={pingedAt} staleAfter={AWAY} never="never came" />
            <p>{pingedAt === null ? "Its agent has never connected." : "Its agent is not heard of: what is shown is that old."}</p>
          </li>
        ))}
      </ul>
      {silent.length > MOST_SILENT && <Link href="/clusters?health=NEVER">and {silent.length - MOST_SILENT} more clusters that are not heard of</Link>}
      {totalCount !== null && totalCount > edges.length && <Link href="/services?status=FAILED">All {totalCount} that failed</Link>}
    </section>
  );
}
