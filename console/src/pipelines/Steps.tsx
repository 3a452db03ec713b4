import { Suspense } from "react";
import { loadable } from "../ui/loadable";
import { Skeleton } from "../ui/Skeleton";
import { gateState, type State } from "../ui/states";
import { Status } from "../ui/Status";
import { JobLog } from "./JobLog";
import { MetricChart } from "./MetricChart";
import type { GateStep } from "./gatesteps";

const FlowGraph = loadable(() => import("../ui/FlowGraph"), "FlowGraph");

const stateOf = ({ check }: GateStep): State => gateState(check?.state ?? "PENDING");

function StepCard({ step, alone }: { readonly step: GateStep; readonly alone: boolean }) {
  const { name, title, after, check, limit, measured } = step;
  return (
    <section className="card stack" aria-label={alone ? "Check" : `Step ${name}`}>
      <h2>
        <span>
          {alone ? "Check" : name}{" "}
          <Status state={stateOf(step)} pill />
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

/** Graph of the steps; the cards below repeat it as text. */
function Picture({ steps }: { readonly steps: readonly GateStep[] }) {
  const nodes = steps.map((step) => ({ id: step.name, title: step.name, note: step.title.toLowerCase(), state: stateOf(step) }));
  const edges = steps.flatMap(({ name, after, check }) => after.map((from) => ({ id: `${from} ${name}`, from, to: name, label: "", moving: check?.state === "RUNNING" })));
  return (
    <Suspense fallback={<Skeleton lines={4} />}>
      <FlowGraph label="Steps" nodes={nodes} edges={edges} />
    </Suspense>
  );
}

/** The check of a gate, or the steps of its workflow, with logs and charts. */
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
