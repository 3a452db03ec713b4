import { useState } from "react";
import { Link } from "wouter";
import type { PipelineBoardFragment } from "../api/generated";
import { Age } from "../ui/Age";
import { Status, type Tone } from "../ui/Status";
import { Decision } from "./Decision";
import { askedBefore, type Asked, type Edge, type Gate } from "./stages";

const GATE: Record<string, readonly [Tone, string]> = {
  OPEN: ["ok", "Open"],
  PENDING: ["idle", "Not yet"],
  RUNNING: ["warn", "Waits"],
  CLOSED: ["bad", "Closed"],
};

/** Tone and word of a gate's state. */
export const gateState = (state: string): readonly [Tone, string] => GATE[state] ?? ["idle", state];

/** What somebody can say at a gate now; nothing where it is not theirs to say. */
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

/** A gate in a line: what it says, who has approved, and what can be decided. */
export function GateLine({ gate, asked, pipelineId }: { readonly gate: Gate; readonly asked: Asked; readonly pipelineId: string }) {
  const [tone, word] = gateState(gate.state);
  return (
    <li>
      <p className="gate-name">
        <Link href={`/pipelines/${pipelineId}/gates/${gate.id}`}>
          <strong>{gate.name}</strong>
        </Link>
        <Status tone={tone}>{word}</Status>
      </p>
      <p className="quiet">
        {gate.type.toLowerCase()}
        {gate.quorum !== null && gate.type === "APPROVAL" && gate.reason === "" && `, ${gate.approvals.length} of ${gate.quorum}`}
        {gate.notAuthor === true && ", not by its author"}
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

/** What a release has to pass on its way into a stage. */
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
      {edge.gates.length === 0 && <li className="quiet">no gate</li>}
      {edge.reason !== "" && <li className="why">{edge.reason}</li>}
    </ul>
  );
}
