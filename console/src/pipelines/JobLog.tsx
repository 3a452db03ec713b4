import { useCallback, useEffect, useRef } from "react";
import { useQuery, useSubscription } from "urql";
import { GateJobDocument, GateJobLogDocument, type GateJobLogSubscription } from "../api/generated";
import { plain } from "../text/escapes";
import { Age } from "../ui/Age";
import { Problem } from "../ui/Problem";
import { Skeleton } from "../ui/Skeleton";
import { JOB_STATES } from "../ui/states";
import { Status } from "../ui/Status";

const MAX_CHARACTERS = 200_000;

/** Live log, cut to its last 200,000 characters; empty until the first line arrives. */
function useLog(id: string, isActive: boolean): string {
  const join = useCallback((known: string | undefined, { clusterJobLogs }: GateJobLogSubscription) => ((known ?? "") + clusterJobLogs.text).slice(-MAX_CHARACTERS), []);
  const [{ data }] = useSubscription({ query: GateJobLogDocument, variables: { id }, pause: !isActive }, join);
  return data ?? "";
}

/** Log text, scrolled to its end as it grows. */
function Lines({ text }: { readonly text: string }) {
  const holder = useRef<HTMLPreElement>(null);
  useEffect(() => {
    // `scrollTo` returns a promise in newer browsers; an effect must not return it.
    holder.current?.scrollTo({ top: holder.current.scrollHeight });
  }, [text]);
  return (
    <pre ref={holder} className="block job-log" tabIndex={0} role="region" aria-label="Job log">
      {text === "" ? "No output yet." : text}
    </pre>
  );
}

/** Job of a gate: state, exit code and live log. */
export function JobLog({ id }: { readonly id: string }) {
  const [{ data, error }] = useQuery({ query: GateJobDocument, variables: { id } });
  const job = data?.clusterJob;
  const text = useLog(id, job != null);
  if (error !== undefined && data == null) return <Problem error={error} />;
  if (data == null) return <Skeleton lines={4} />;
  if (job == null) return <p className="quiet">This job is no longer stored.</p>;
  const log = plainLines(text === "" ? job.logTail : text);
  return (
    <section className="stack" aria-label="Job">
      <p>
        <Status state={JOB_STATES[job.phase]} pill />{" "}
        {job.object === null ? "" : `${job.object.kind} ${job.namespace}/${job.object.name}`} {job.exitCode !== null && `exit code ${job.exitCode}`} {job.message}{" "}
        <span className="quiet">
          {job.startedAt === null ? (
            "not started"
          ) : (
            <>
              started <Age at={job.startedAt} />
            </>
          )}
        </span>
      </p>
      <Lines text={log} />
    </section>
  );
}

const plainLines = (text: string): string => text.split("\n").map(plain).join("\n");
