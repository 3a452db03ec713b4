import { useState } from "react";
import { useMutation, useQuery, useSubscription } from "urql";
import { Link, useParams } from "wouter";
import { GateMeasurementsDocument, GatesDeltaDocument, GatesDocument, SkipGateDocument, type GateFullFragment, type GatesQuery } from "../api/generated";
import { useRefetch } from "../live/useRefetch";
import { toYaml } from "../text/yaml";
import { Age } from "../ui/Age";
import { Code } from "../ui/Code";
import { Confirm } from "../ui/Confirm";
import { ResourceError, ResourceNotFound } from "../ui/ResourceNotFound";
import { Person } from "../ui/Person";
import { Problem } from "../ui/Problem";
import { Skeleton } from "../ui/Skeleton";
import { gateState } from "../ui/states";
import { Status } from "../ui/Status";
import { GateDecision } from "./Gates";
import { GATE_KINDS } from "../api/kinds";
import { edgeQuestion, workflowQuestion, type GateQuestion } from "./stages";
import { Steps } from "./Steps";
import { stepsOf } from "./gatesteps";
import "../services/service.css";
import "./pipelines.css";

type Pipeline = NonNullable<GatesQuery["pipeline"]>;

type Found = { readonly gate: GateFullFragment; readonly question: GateQuestion; readonly pushers: readonly string[] };

/** Gate of an edge, or workflow of a stage, with its question and the pushers of its release. */
function found({ edges, stages }: Pipeline, id: string): Found | null {
  for (const edge of edges) {
    const gate = edge.gates.find((candidate) => candidate.id === id);
    if (gate !== undefined) return { gate, question: edgeQuestion(edge, stages), pushers: edge.release?.pushers ?? [] };
  }
  const stage = stages.find(({ workflow }) => workflow?.id === id);
  if (stage?.workflow == null) return null;
  return { gate: stage.workflow, question: workflowQuestion(stage), pushers: stage.release?.pushers ?? [] };
}

function Skip({ gate, question }: { readonly gate: GateFullFragment; readonly question: GateQuestion }) {
  const [dialog, setDialog] = useState(false);
  const [reason, setReason] = useState("");
  const [{ error }, skip] = useMutation(SkipGateDocument);
  if (question.release === null || gate.state === "OPEN") return null;
  const { id: releaseId, number } = question.release;
  const go = async () => {
    const result = await skip({ id: gate.id, releaseId, reason });
    if (result.error === undefined) setDialog(false);
  };
  return (
    <>
      <button type="button" onClick={() => setDialog(true)}>
        Skip this gate for #{number}…
      </button>
      {dialog && (
        <Confirm title={`Skip ${gate.name} for release #${number}?`} action="Skip gate" typed={gate.name} onCancel={() => setDialog(false)} onConfirm={() => void go()}>
          {error !== undefined && <Problem error={error} />}
          <label>
            Reason <small>shown in the activity and in the audit log</small>
            <input value={reason} required maxLength={1000} onChange={(event) => setReason(event.target.value)} />
          </label>
        </Confirm>
      )}
    </>
  );
}

/** Page of candidate gate: state, approvals, checks and settings. */
export function GatePage() {
  const { id, gate: gateId } = useParams<{ id: string; gate: string }>();
  const [{ data, error }] = useQuery({ query: GatesDocument, variables: { id } });
  const [changes] = useSubscription({ query: GatesDeltaDocument, variables: { id } }, (count: number | undefined) => (count ?? 0) + 1);
  const [measured, refetch] = useQuery({ query: GateMeasurementsDocument, variables: { id: gateId } });
  useRefetch(refetch, String(changes.data ?? 0), gateId);
  if (error !== undefined && data == null) return <ResourceError error={error} kind="gate" />;
  if (data == null) return <Skeleton lines={10} />;
  const { pipeline } = data;
  const here = pipeline === null ? null : found(pipeline, gateId);
  if (pipeline === null || here === null) return <ResourceNotFound kind="gate" />;
  const { gate, question, pushers } = here;
  return (
    <article className="stack">
      <header className="service-head">
        <div>
          <p className="crumbs">
            <Link href="/pipelines">Pipelines</Link> / <Link href={`/pipelines/${pipeline.id}`}>{pipeline.name}</Link> / {question.place}
          </p>
          <h1>
            {gate.name}{" "}
            <Status state={gateState(gate.state)} pill />
          </h1>
          <p className="quiet">
            {GATE_KINDS[gate.type].title}: {GATE_KINDS[gate.type].description}
          </p>
        </div>
        <span className="fill" />
        <GateDecision gate={gate} question={question} />
        <Skip gate={gate} question={question} />
      </header>
      <section className="card stack">
        <h2>
          {question.release === null ? (
            "No release is waiting"
          ) : (
            <span>
              Release #{question.release.number} by <Person author={question.release.author} />
              {pushers.length > 0 && `, pushed by ${pushers.join(", ")}`}
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
      <Steps steps={stepsOf(gate, measured.data?.gateMeasurements ?? [])} alone={gate.type !== "WORKFLOW"} />
      {gate.settings !== "{}" && (
        <section className="stack">
          <h2>Settings</h2>
          <Code text={toYaml(JSON.parse(gate.settings))} label="Gate settings" />
        </section>
      )}
    </article>
  );
}
