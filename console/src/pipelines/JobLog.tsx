import { useCallback, useEffect, useRef } from "react";
import { useQuery, useSubscription } from "urql";
import { GateJobDocument, GateJobLogDocument, type GateJobLogSubscription, type GateJobQuery } from "../api/generated";
import { plain } from "../text/escapes";
import { Age } from "../ui/Age";
import { Problem } from "../ui/Problem";
import { Skeleton } from "../ui/Skeleton";
import { Status, type Tone } from "../ui/Status";

type Phase = NonNullable<GateJobQuery["clusterJob"]>["phase"];

const PHASES: Record<Phase, readonly [Tone, string]> = {
  PENDING: ["idle", "Not begun"],
  RUNNING: ["busy", "Runs"],
  SUCCEEDED: ["ok", "Succeeded"],
  FAILED: ["bad", "Failed"],
  CANCELLED: ["idle", "Cancelled"],
};
const MOST = 200_000;

/** The log as it comes, its newest 200,000 letters; what is known of it before stays while nothing came. */
function useLog(id: string, isGoingOn: boolean): string {
  const join = useCallback((known: string | undefined, { clusterJobLogs }: GateJobLogSubscription) => ((known ?? "") + clusterJobLogs.text).slice(-MOST), []);
  const [{ data }] = useSubscription({ query: GateJobLogDocument, variables: { id }, pause: !isGoingOn }, join);
  return data ?? "";
}

/** The text, its end in sight as it grows. */
function Lines({ text }: { readonly text: string }) {
  const holder = useRef<HTMLPreElement>(null);
  useEffect(() => {
    // Its answer is a promise in newer browsers: an effect must not end by that.
    holder.current?.scrollTo({ top: holder.current.scrollHeight });
  }, [text]);
  return (
    <pre ref={holder} className="block job-log" tabIndex={0} role="region" aria-label="Log of the job">
      {text === "" ? "It has said nothing yet." : text}
    </pre>
  );
}

/** A job that a gate waits for: how far it is, and what it says, as it says it. */
export function JobLog({ id }: { readonly id: string }) {
  const [{ data, error }] = useQuery({ query: GateJobDocument, variables: { id } });
  const job = data?.clusterJob;
  const text = useLog(id, job != null);
  if (error !== undefined && data == null) return <Problem error={error} />;
  if (data == null) return <Skeleton lines={4} />;
  if (job == null) return <p className="quiet">The job is not kept any more.</p>;
  const [tone, word] = PHASES[job.phase];
  const log = plainLines(text === "" ? job.logTail : text);
  return (
    <section className="stack" aria-label="Job">
      <p>
        <Status tone={tone} pill>
          {word}
        </Status>{" "}
        {job.object === null ? "" : `${job.object.kind} ${job.namespace}/${job.object.name}`} {job.exitCode !== null && `ended with ${job.exitCode}`} {job.message}{" "}
        <span className="quiet">
          begun <Age at={job.startedAt} never="not yet" />
        </span>
      </p>
      <Lines text={log} />
    </section>
  );
}

const plainLines = (text: string): string => text.split("\n").map(plain).join("\n");
