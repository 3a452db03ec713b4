import { useQuery } from "urql";
import { TimelineDocument, TraceDocument, type TimelineQuery } from "../api/generated";
import { useAgain } from "../live/useAgain";
import { duration } from "../text/time";
import { Age } from "../ui/Age";
import { Person } from "../ui/Person";
import { Problem } from "../ui/Problem";
import { Skeleton } from "../ui/Skeleton";
import { Status } from "../ui/Status";
import { STANDINGS } from "./standings";
import type { Service } from "./service";

type Row = TimelineQuery["ledger"]["edges"][number]["node"];

/** What changes when the ledger has a new row. */
const momentOf = ({ sha, status, observedAt }: Service): string => `${sha} ${status} ${observedAt}`;

/** Where the newest commit of its branch stands, for this service. */
function Verdict({ service }: { readonly service: Service }) {
  const newest = service.repository?.commits.find(({ ref }) => ref === service.git?.ref);
  const variables = { sha: newest?.sha ?? "", repositoryId: service.repository?.id ?? null };
  const [{ data, error }, again] = useQuery({ query: TraceDocument, variables, pause: newest === undefined });
  useAgain(again, momentOf(service));
  if (newest === undefined) return <p className="quiet">No commit of {service.git?.ref ?? "its branch"} is known yet.</p>;
  if (error !== undefined && data == null) return <Problem error={error} />;
  if (data == null) return <Skeleton lines={2} />;
  const walk = data.commitTrace.stragglers.find(({ serviceId }) => serviceId === service.id);
  const { tone, word, text } = STANDINGS[walk?.standing ?? "LIVE"];
  return (
    <section className="card verdict">
      <Status tone={tone} pill>
        {word}
      </Status>
      <div>
        <p>
          The newest commit of <code>{newest.ref}</code> is <code>{newest.sha.slice(0, 8)}</code>, “{newest.subject}”. {text}
        </p>
        {walk?.reason != null && walk.reason !== "" && (
          <p>
            <strong>{walk.reason}</strong> {walk.since !== null && <Age at={walk.since} />}
          </p>
        )}
        <p className="quiet">
          Live in {data.commitTrace.live} of {data.commitTrace.services} services that follow it.
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

/** Why the newest commit is live or is not, and how far each one before has come. */
export function Timeline({ service }: { readonly service: Service }) {
  const [{ data, error }, again] = useQuery({ query: TimelineDocument, variables: { id: service.id } });
  useAgain(again, momentOf(service));
  if (error !== undefined && data == null) return <Problem error={error} />;
  if (data == null) return <Skeleton lines={8} />;
  const rows = data.ledger.edges.map(({ node }) => node);
  return (
    <div className="stack">
      <Verdict service={service} />
      <ol className="timeline card">
        {rows.map((row, index) => (
          <Line key={row.id} row={row} before={rows[index + 1]} />
        ))}
      </ol>
    </div>
  );
}
