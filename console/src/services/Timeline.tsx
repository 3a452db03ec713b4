import { useQuery } from "urql";
import { TimelineDocument, TraceDocument, type TimelineQuery } from "../api/generated";
import { useRefetch } from "../live/useRefetch";
import { counted } from "../text/counts";
import { duration } from "../text/time";
import { Age } from "../ui/Age";
import { Person } from "../ui/Person";
import { Problem } from "../ui/Problem";
import { Skeleton } from "../ui/Skeleton";
import { COMMIT_STATES } from "../ui/states";
import { Status } from "../ui/Status";
import { COMMIT_TEXTS } from "./commitStates";
import type { Service } from "./service";

type Row = TimelineQuery["ledger"]["edges"][number]["node"];

/** Key that changes when the ledger has a new row. */
const ledgerKey = ({ sha, status, observedAt }: Service): string => `${sha} ${status} ${observedAt}`;

/** State of the branch's newest commit in this service. */
function NewestCommit({ service }: { readonly service: Service }) {
  const newest = service.repository?.commits.find(({ ref }) => ref === service.git?.ref);
  const variables = { sha: newest?.sha ?? "", repositoryId: service.repository?.id ?? null };
  const [{ data, error }, refetch] = useQuery({ query: TraceDocument, variables, pause: newest === undefined });
  useRefetch(refetch, ledgerKey(service));
  if (newest === undefined) return <p className="quiet">Waiting for the first fetch of {service.follows ?? "the branch"}.</p>;
  if (error !== undefined && data == null) return <Problem error={error} />;
  if (data == null) return <Skeleton lines={2} />;
  const trace = data.commitTrace.stragglers.find(({ serviceId }) => serviceId === service.id);
  const standing = trace?.standing ?? "LIVE";
  return (
    <section className="card newest-commit">
      <Status state={COMMIT_STATES[standing]} pill />
      <div>
        <p>
          The newest commit of <code>{newest.ref}</code> is <code>{newest.sha.slice(0, 8)}</code>, “{newest.subject}”. {COMMIT_TEXTS[standing]}
        </p>
        {trace?.reason != null && trace.reason !== "" && (
          <p>
            <strong>{trace.reason}</strong> {trace.since !== null && <Age at={trace.since} />}
          </p>
        )}
        <p className="quiet">
          Live in {data.commitTrace.live} of {counted(data.commitTrace.services, "service")} that follow this branch.
        </p>
      </div>
    </section>
  );
}

function Line({ row, before }: { readonly row: Row; readonly before: Row | undefined }) {
  const took = before === undefined || before.sequence !== row.sequence ? null : Math.max(0, new Date(row.at).getTime() - new Date(before.at).getTime());
  return (
    <li className={`stage-${row.stage}`}>
      <Age at={row.at} />
      <strong>{row.stage}</strong>
      <span className="quiet">{took === null ? "" : took < 1000 ? `+${took} ms` : `+${duration(took)}`}</span>
      <code>{row.sha?.slice(0, 8)}</code>
      <span>{row.message}</span>
      <span className="quiet">
        <Person author={row.actor} />
      </span>
    </li>
  );
}

/** Rollout of the newest commit, and the stages that earlier commits have reached. */
export function Timeline({ service }: { readonly service: Service }) {
  const [{ data, error }, refetch] = useQuery({ query: TimelineDocument, variables: { id: service.id } });
  useRefetch(refetch, ledgerKey(service));
  if (error !== undefined && data == null) return <Problem error={error} />;
  if (data == null) return <Skeleton lines={8} />;
  const rows = data.ledger.edges.map(({ node }) => node);
  return (
    <div className="stack">
      <NewestCommit service={service} />
      <ol className="timeline card">
        {rows.map((row, index) => (
          <Line key={row.id} row={row} before={rows[index + 1]} />
        ))}
      </ol>
    </div>
  );
}
