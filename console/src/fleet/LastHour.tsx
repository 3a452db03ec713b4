import { useMemo } from "react";
import { useQuery } from "urql";
import { Link } from "wouter";
import { LastHourDocument } from "../api/generated";
import { Problem } from "../ui/Problem";
import { Skeleton } from "../ui/Skeleton";
import { letterOf, wordOf } from "./marks";

const HOUR = 3_600_000;
const MOST = 12;

const WORDS: Record<string, string> = { ADDED: "is new", REMOVED: "is gone", CHANGED: "" };

/** What is otherwise than an hour before a moment. */
export function LastHour({ until, moved }: { readonly until: string | null; readonly moved: string }) {
  const span = useMemo(() => {
    const end = until === null ? new Date() : new Date(until);
    return { then: new Date(end.getTime() - HOUR).toISOString(), now: end.toISOString(), moved };
  }, [until, moved]);
  const [{ data, error }] = useQuery({ query: LastHourDocument, variables: { then: span.then, now: span.now } });
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
