import { useEffect, useMemo, useState } from "react";
import { useQuery } from "urql";
import { Link } from "wouter";
import { LastHourDocument } from "../api/generated";
import { UNCACHED } from "../api/uncached";
import { Problem } from "../ui/Problem";
import { Skeleton } from "../ui/Skeleton";
import { CELL_STATES } from "../ui/states";

const HOUR = 3_600_000;
const MAX_CHANGES = 12;
const PAUSE = 10_000;

const WORDS: Record<string, string> = { ADDED: "created", REMOVED: "deleted", CHANGED: "" };

/** The present, again when services have changed, at most once in 10 s: the query reads the whole fleet. */
function usePresent(moves: number): Date {
  const [round, next] = useState(() => ({ moves, at: new Date() }));
  useEffect(() => {
    if (moves === round.moves) return undefined;
    const timer = setTimeout(() => next({ moves, at: new Date() }), PAUSE);
    return () => clearTimeout(timer);
  }, [moves, round]);
  return round.at;
}

/** Commit before and after a change; only the new one of a service that had none. */
function Commits({ before, after }: { readonly before: string | null; readonly after: string | null }) {
  if (before === after) return null;
  const short = (sha: string | null) => <code>{sha?.slice(0, 7) ?? "–"}</code>;
  return before === null ? <>at {short(after)} </> : <>{short(before)} → {short(after)} </>;
}

/** Changes of the fleet in the hour before a point in time. */
export function LastHour({ until, moves }: { readonly until: string | null; readonly moves: number }) {
  const present = usePresent(moves);
  const span = useMemo(() => {
    const end = until === null ? present : new Date(until);
    return { then: new Date(end.getTime() - HOUR).toISOString(), now: end.toISOString() };
  }, [until, present]);
  const [{ data, error }] = useQuery({ query: LastHourDocument, variables: span, requestPolicy: "network-only", context: UNCACHED });
  if (error !== undefined && data == null) return <Problem error={error} />;
  if (data == null) return <Skeleton lines={4} />;
  const changes = data.fleetChanges;
  return (
    <section className="card" aria-labelledby="last-hour">
      <h2 id="last-hour">
        Changed in the last hour <small>{changes.length === 0 ? "none" : changes.length.toLocaleString()}</small>
      </h2>
      <ul className="changes">
        {changes.slice(0, MAX_CHANGES).map((change) => (
          <li key={change.serviceId}>
            <Link href={`/services/${change.serviceId}`}>
              {change.cluster ?? "deleted cluster"}/{change.service ?? "deleted service"}
            </Link>{" "}
            {WORDS[change.kind]}{" "}
            <span className="quiet">
              <Commits before={change.shaBefore} after={change.shaAfter} />
              {change.statusAfter !== null && change.statusBefore !== change.statusAfter && CELL_STATES[change.statusAfter].label}
            </span>
          </li>
        ))}
      </ul>
      {changes.length > MAX_CHANGES && <p className="quiet">and {changes.length - MAX_CHANGES} more</p>}
    </section>
  );
}
