import { lazy, Suspense } from "react";
import { Skeleton } from "../ui/Skeleton";
import { Status, type Tone } from "../ui/Status";
import { JobLog } from "./JobLog";
import { MetricChart } from "./MetricChart";
import type { GateStep } from "./gatesteps";

const FlowGraph = lazy(async () => ({ default: (await import("../ui/FlowGraph")).FlowGraph }));

const STATES: Readonly<Record<string, readonly [Tone, string]>> = {
  PENDING: ["idle", "Not begun"],
  RUNNING: ["warn", "Waits"],
  OPEN: ["ok", "Passed"],
  CLOSED: ["bad", "Failed"],
};

const stateOf = ({ check }: GateStep): readonly [Tone, string] => STATES[check?.state ?? "PENDING"] ?? ["idle", check?.state ?? ""];

function StepCard({ step, alone }: { readonly step: GateStep; readonly alone: boolean }) {
  const { name, title, after, check, limit, measured } = step;
  const [tone, word] = stateOf(step);
  return (
    <section className="card stack" aria-label={alone ? "Check" : `Step ${name}`}>
      <h2>
        <span>
          {alone ? "What it looks at" : name}{" "}
          <Status tone={tone} pill>
            {word}
          </Status>
        </span>
        <small>
          {title.toLowerCase()}
          {after.length > 0 && `, after ${after.join(", ")}`}
          {check !== null && check.attempt > 0 && `, attempt ${check.attempt}`}
        </small>
      </h2>
      {check !== null && check.reason !== "" && <p>{check.reason}</p>}
      {limit !== null && <MetricChart measured={measured} limit={limit} />}
      {check !== null && check.outputs.length > 0 && (
        <dl className="facts">
          {check.outputs.map(({ name: output, value }) => (
            <div key={output} className="output">
              <dt>{output}</dt>
              <dd>
                <code>{value}</code>
              </dd>
            </div>
          ))}
        </dl>
      )}
      {check?.jobId != null && <JobLog id={check.jobId} />}
    </section>
  );
}

/** The steps as a graph; below it each says the same in words. */
function Picture({ steps }: { readonly steps: readonly GateStep[] }) {
  const spots = steps.map((step) => {
    const [tone, word] = stateOf(step);
    return { id: step.name, title: step.name, note: step.title.toLowerCase(), tone, word };
  });
  const ways = steps.flatMap(({ name, after, check }) => after.map((from) => ({ id: `${from} ${name}`, from, to: name, label: "", moving: check?.state === "RUNNING" })));
  return (
    <Suspense fallback={<Skeleton lines={4} />}>
      <FlowGraph label="Steps" spots={spots} ways={ways} />
    </Suspense>
  );
}

/** What a gate looks at: its one check, or the steps of its workflow, with their logs and charts. */
export function Steps({ steps, alone }: { readonly steps: readonly GateStep[]; readonly alone: boolean }) {
  return (
    <>
      {steps.length > 1 && <Picture steps={steps} />}
      {steps.map((step) => (
        <StepCard key={step.name} step={step} alone={alone} />
      ))}
    </>
  );
}
