import { useState } from "react";
import { Link } from "wouter";
import type { PipelineBoardFragment } from "../api/generated";
import { counted } from "../text/counts";
import { Age } from "../ui/Age";
import { gateState } from "../ui/states";
import { Status } from "../ui/Status";
import { Decision } from "./Decision";
import { GATE_KINDS } from "../api/kinds";
import { edgeQuestion, type GateQuestion, type Edge, type Gate } from "./stages";

type Opened = { readonly verdict: "approve" | "reject"; readonly question: GateQuestion };

/** Approve and reject buttons while the gate waits for a decision. A dialog stays with the release that it was opened for. */
export function GateDecision({ gate, question, onDone }: { readonly gate: Gate; readonly question: GateQuestion; readonly onDone?: () => void }) {
  const [opened, setOpened] = useState<Opened | null>(null);
  const waiting = gate.awaitsDecision ? question.release : null;
  const close = () => {
    setOpened(null);
    onDone?.();
  };
  return (
    <>
      {waiting !== null && (
        <div className="decide">
          <button type="button" className="primary" onClick={() => setOpened({ verdict: "approve", question })}>
            Approve…
          </button>
          <button type="button" onClick={() => setOpened({ verdict: "reject", question })}>
            Reject…
          </button>
        </div>
      )}
      {opened !== null && <Decision gate={gate} {...opened} isOutdated={waiting?.number !== opened.question.release?.number} onDone={close} />}
    </>
  );
}

/** One gate in a list: state, approvals and decision buttons. */
export function GateLine({ gate, question, pipelineId }: { readonly gate: Gate; readonly question: GateQuestion; readonly pipelineId: string }) {
  return (
    <li>
      <p className="gate-name">
        <Link href={`/pipelines/${pipelineId}/gates/${gate.id}`}>
          <strong>{gate.name}</strong>
        </Link>
        <Status state={gateState(gate.state)} />
      </p>
      <p className="quiet">
        {GATE_KINDS[gate.type].title}
        {gate.quorum !== null && gate.type === "APPROVAL" && gate.reason === "" && `, ${gate.approvals.length} of ${counted(gate.quorum, "approval")}`}
        {gate.notAuthor === true && ", author excluded"}
      </p>
      {gate.reason !== "" && gate.reason !== question.reason && <p className="why">{gate.reason}</p>}
      {gate.approvals.map(({ actor, at, comment }) => (
        <p key={actor}>
          <span className="status ok">✓ {actor}</span> <Age at={at} /> {comment}
        </p>
      ))}
      <GateDecision gate={gate} question={question} />
    </li>
  );
}

/** Gates that a release must pass before a stage. */
export function Gates({ edge, pipeline }: { readonly edge: Edge; readonly pipeline: PipelineBoardFragment }) {
  const question = edgeQuestion(edge, pipeline.stages);
  return (
    <ul className="gates" aria-label={`Gates from ${edge.from.name} to ${edge.to.name}`}>
      <li className="gate-from">
        {question.place} {edge.release !== null && <strong>#{edge.release.number}</strong>}
      </li>
      {edge.gates.map((gate) => (
        <GateLine key={gate.id} gate={gate} question={question} pipelineId={pipeline.id} />
      ))}
      {edge.gates.length === 0 && <li className="quiet">No gates</li>}
      {edge.reason !== "" && <li className="why">{edge.reason}</li>}
    </ul>
  );
}
