import { useState } from "react";
import { useMutation, useQuery, useSubscription } from "urql";
import { Link, useParams } from "wouter";
import { GatesDeltaDocument, GatesDocument, SkipGateDocument, type GateFullFragment } from "../api/generated";
import { toYaml } from "../text/yaml";
import { Age } from "../ui/Age";
import { Code } from "../ui/Code";
import { Confirm } from "../ui/Confirm";
import { NotThere } from "../ui/NotThere";
import { Person } from "../ui/Person";
import { Problem } from "../ui/Problem";
import { Skeleton } from "../ui/Skeleton";
import { Status } from "../ui/Status";
import { GateDecision, gateState } from "./Gates";
import { at, GATE_KINDS } from "./gatekinds";
import { JobLog } from "./JobLog";
import { MetricChart } from "./MetricChart";
import type { Edge } from "./stages";
import "../services/service.css";
import "./pipelines.css";

type Settings = Readonly<Record<string, unknown>>;

/** The settings of one step: those of the gate itself, or of that step of its workflow. */
function settingsOf(settings: Settings, step: string): Settings {
  const steps = Array.isArray(settings["steps"]) ? (settings["steps"] as Settings[]) : [];
  return steps.find(({ name }) => name === step) ?? settings;
}

function Check({ check, settings }: { readonly check: GateFullFragment["checks"][number]; readonly settings: Settings }) {
  const [tone, word] = gateState(check.state);
  const metric = at(settings, "metric");
  const threshold = at(metric, "threshold");
  const comparison = at(metric, "comparison");
  return (
    <section className="card stack" aria-label={check.step === "" ? "Check" : `Check ${check.step}`}>
      <h2>
        <span>
          {check.step || "What it looks at"}{" "}
          <Status tone={tone} pill>
            {word}
          </Status>
        </span>
        <small>attempt {check.attempt}</small>
      </h2>
      {check.reason !== "" && <p>{check.reason}</p>}
      {typeof threshold === "number" && (
        <MetricChart reason={check.reason} attempt={check.attempt} limit={{ threshold, comparison: typeof comparison === "string" ? comparison : "AT_MOST" }} />
      )}
      {check.outputs.length > 0 && (
        <dl className="facts">
          {check.outputs.map(({ name, value }) => (
            <div key={name} className="output">
              <dt>{name}</dt>
              <dd>
                <code>{value}</code>
              </dd>
            </div>
          ))}
        </dl>
      )}
      {check.jobId !== null && <JobLog id={check.jobId} />}
    </section>
  );
}

function Skip({ gate, edge }: { readonly gate: GateFullFragment; readonly edge: Edge }) {
  const [asking, ask] = useState(false);
  const [reason, setReason] = useState("");
  const [{ error }, skip] = useMutation(SkipGateDocument);
  if (edge.release === null || gate.state === "OPEN") return null;
  const { id: releaseId, number } = edge.release;
  const go = async () => {
    const result = await skip({ id: gate.id, releaseId, reason });
    if (result.error === undefined) ask(false);
  };
  return (
    <>
      <button type="button" onClick={() => ask(true)}>
        Let #{number} pass without it…
      </button>
      {asking && (
        <Confirm title={`Let #${number} pass ${gate.name} without its answer?`} action="Let it pass" typed={gate.name} onCancel={() => ask(false)} onConfirm={() => void go()}>
          {error !== undefined && <Problem error={error} />}
          <label>
            Why <small>it stands in the history and in the audit trail</small>
            <input value={reason} required maxLength={1000} onChange={(event) => setReason(event.target.value)} />
          </label>
        </Confirm>
      )}
    </>
  );
}

/** One gate: what it asks, what it has been told, the job that it waits for, and what can be decided. */
export function GatePage() {
  const { id, gate: gateId } = useParams<{ id: string; gate: string }>();
  const [{ data, error }] = useQuery({ query: GatesDocument, variables: { id } });
  useSubscription({ query: GatesDeltaDocument, variables: { id } });
  if (error !== undefined && data == null) return <Problem error={error} />;
  if (data == null) return <Skeleton lines={10} />;
  const { pipeline } = data;
  const edge = pipeline?.edges.find(({ gates }) => gates.some((one) => one.id === gateId));
  const gate = edge?.gates.find((one) => one.id === gateId);
  if (pipeline == null || edge === undefined || gate === undefined) return <NotThere what="gate" />;
  const settings = JSON.parse(gate.settings) as Settings;
  const [tone, word] = gateState(gate.state);
  return (
    <article className="stack">
      <header className="service-head">
        <div>
          <p className="crumbs">
            <Link href="/pipelines">Pipelines</Link> / <Link href={`/pipelines/${pipeline.id}`}>{pipeline.name}</Link> / {edge.from.name} → {edge.to.name}
          </p>
          <h1>
            {gate.name}{" "}
            <Status tone={tone} pill>
              {word}
            </Status>
          </h1>
          <p className="quiet">
            {GATE_KINDS[gate.type].title}: {GATE_KINDS[gate.type].what}
          </p>
        </div>
        <span className="fill" />
        <GateDecision gate={gate} edge={edge} />
        <Skip gate={gate} edge={edge} />
      </header>
      <section className="card stack">
        <h2>
          {edge.release === null ? (
            "No release waits here"
          ) : (
            <span>
              Release #{edge.release.number} by <Person author={edge.release.author} />
            </span>
          )}
        </h2>
        {gate.reason !== "" && <p>{gate.reason}</p>}
        {gate.skipped !== null && <p className="status warn">{gate.skipped}</p>}
        {gate.approvals.map(({ actor, at: when, comment }) => (
          <p key={actor}>
            <span className="status ok">✓ {actor}</span> <Age at={when} /> {comment}
          </p>
        ))}
      </section>
      {gate.checks.map((check) => (
        <Check key={check.step} check={check} settings={settingsOf(settings, check.step)} />
      ))}
      {Object.keys(settings).length > 0 && (
        <section className="stack">
          <h2>What it asks</h2>
          <Code text={toYaml(settings)} label="What the gate asks" />
        </section>
      )}
    </article>
  );
}
