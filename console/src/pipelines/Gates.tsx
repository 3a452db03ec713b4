import { useState } from "react";
import { Link } from "wouter";
import type { PipelineBoardFragment } from "../api/generated";
import { Age } from "../ui/Age";
import { gateState } from "../ui/states";
import { Status } from "../ui/Status";
import { Decision } from "./Decision";
import { askedBefore, type Asked, type Edge, type Gate } from "./stages";

/** Approve and reject buttons; nothing while the gate does not wait for a decision. */
export function GateDecision({ gate, asked }: { readonly gate: Gate; readonly asked: Asked }) {
  const [asking, ask] = useState<"approve" | "reject" | null>(null);
  if (!gate.awaitsDecision || asked.release === null) return null;
  return (
    <>
      <div className="decide">
        <button type="button" className="primary" onClick={() => ask("approve")}>
          Approve…
        </button>
        <button type="button" onClick={() => ask("reject")}>
          Reject…
        </button>
      </div>
      {asking !== null && <Decision gate={gate} asked={asked} verdict={asking} onDone={() => ask(null)} />}
    </>
  );
}

/** One gate in a list: state, approvals and decision buttons. */
export function GateLine({ gate, asked, pipelineId }: { readonly gate: Gate; readonly asked: Asked; readonly pipelineId: string }) {
  return (
    <li>
      <p className="gate-name">
        <Link href={`/pipelines/${pipelineId}/gates/${gate.id}`}>
          <strong>{gate.name}</strong>
        </Link>
        <Status state={gateState(gate.state)} />
      </p>
      <p className="quiet">
        {gate.type.toLowerCase()}
        {gate.quorum !== null && gate.type === "APPROVAL" && gate.reason === "" && `, ${gate.approvals.length} of ${gate.quorum} approvals`}
        {gate.notAuthor === true && ", author excluded"}
      </p>
      {gate.reason !== "" && gate.reason !== asked.reason && <p className="why">{gate.reason}</p>}
      {gate.approvals.map(({ actor, at, comment }) => (
        <p key={actor}>
          <span className="status ok">✓ {actor}</span> <Age at={at} /> {comment}
        </p>
      ))}
      <GateDecision gate={gate} asked={asked} />
    </li>
  );
}

/** Gates that a release must pass before a stage. */
export function Gates({ edge, pipeline }: { readonly edge: Edge; readonly pipeline: PipelineBoardFragment }) {
  const asked = askedBefore(edge, pipeline.stages);
  return (
    <ul className="gates" aria-label={`Gates from ${edge.from.name} to ${edge.to.name}`}>
      <li className="gate-from">
        {asked.place} {edge.release !== null && <strong>#{edge.release.number}</strong>}
      </li>
      {edge.gates.map((gate) => (
        <GateLine key={gate.id} gate={gate} asked={asked} pipelineId={pipeline.id} />
      ))}
      {edge.gates.length === 0 && <li className="quiet">No gates</li>}
      {edge.reason !== "" && <li className="why">{edge.reason}</li>}
    </ul>
  );
}
