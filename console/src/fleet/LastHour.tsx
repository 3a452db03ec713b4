import { useEffect, useMemo, useState } from "react";
import { useQuery } from "urql";
import { Link } from "wouter";
import { LastHourDocument } from "../api/generated";
import { UNCACHED } from "../api/uncached";
import { Problem } from "../ui/Problem";
import { Skeleton } from "../ui/Skeleton";
import { letterOf, wordOf } from "./marks";

const HOUR = 3_600_000;
const MOST = 12;
const PAUSE = 10_000;

const WORDS: Record<string, string> = { ADDED: "is new", REMOVED: "is gone", CHANGED: "" };

/** Another number when services have moved, but not again within ten seconds: the answer looks at the whole fleet. */
function useRound(moves: number): number {
  const [round, next] = useState(moves);
  useEffect(() => {
    if (moves === round) return undefined;
    const timer = setTimeout(() => next(moves), PAUSE);
    return () => clearTimeout(timer);
  }, [moves, round]);
  return round;
}

/** What is otherwise than an hour before a moment. */
export function LastHour({ until, moves }: { readonly until: string | null; readonly moves: number }) {
  const round = useRound(moves);
  const span = useMemo(() => {
    const end = until === null ? new Date() : new Date(until);
    return { then: new Date(end.getTime() - HOUR).toISOString(), now: end.toISOString(), round };
  }, [until, round]);
  const [{ data, error }] = useQuery({ query: LastHourDocument, variables: { then: span.then, now: span.now }, requestPolicy: "network-only", context: UNCACHED });
  if (error !== undefined && data == null) return <Problem error={error} />;
  if (data == null) return <Skeleton lines={4} />;
  const changes = data.fleetChanges;
  return (
    <section className="card" aria-labelledby="last-hour">
      <h2 id="last-hour">
        Changed within an hour <small>{changes.length === 0 ? "nothing" : changes.length}</small>
      </h2>
      <ul className="changes">
        {changes.slice(0, MOST).map((one) => (
          <li key={one.serviceId}>
            <Link href={`/services/${one.serviceId}`}>
              {one.cluster ?? "deleted cluster"}/{one.service ?? "deleted service"}
            </Link>{" "}
            {WORDS[one.kind]}{" "}
            <span className="quiet">
              {one.shaBefore !== one.shaAfter && (
                <>
                  <code>{one.shaBefore?.slice(0, 7) ?? "–"}</code> → <code>{one.shaAfter?.slice(0, 7) ?? "–"}</code>{" "}
                </>
              )}
              {one.markAfter !== null && one.markBefore !== one.markAfter && wordOf(letterOf(one.markAfter))}
            </span>
          </li>
        ))}
      </ul>
      {changes.length > MOST && <p className="quiet">and {changes.length - MOST} more</p>}
    </section>
  );
}
