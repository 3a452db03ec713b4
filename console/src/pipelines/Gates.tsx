import { useState } from "react";
import { Age } from "../ui/Age";
import { Status, type Tone } from "../ui/Status";
import { Decision } from "./Decision";
import type { Edge, Gate } from "./stages";

const GATE: Record<string, readonly [Tone, string]> = {
  OPEN: ["ok", "Open"],
  PENDING: ["idle", "Nothing waits"],
  RUNNING: ["warn", "Waits"],
  CLOSED: ["bad", "Closed"],
};

function GateLine({ gate, edge }: { readonly gate: Gate; readonly edge: Edge }) {
  const [asking, ask] = useState<"approve" | "reject" | null>(null);
  const [tone, word] = GATE[gate.state] ?? ["idle", gate.state];
  const isDecidable = gate.type === "APPROVAL" && gate.state === "RUNNING" && edge.release !== null;
  return (
    <li>
      <p className="gate-name">
        <strong>{gate.name}</strong>
        <Status tone={tone}>{word}</Status>
      </p>
      <p className="quiet">
        {gate.type.toLowerCase()}
        {gate.quorum !== null && gate.type === "APPROVAL" && `, ${gate.approvals.length} of ${gate.quorum}`}
        {gate.notAuthor === true && ", not by its author"}
      </p>
      {gate.reason !== "" && <p className="why">{gate.reason}</p>}
      {gate.approvals.map(({ actor, at, comment }) => (
        <p key={actor}>
          <span className="status ok">✓ {actor}</span> <Age at={at} /> {comment}
        </p>
      ))}
      {isDecidable && (
        <div className="decide">
          <button type="button" className="primary" onClick={() => ask("approve")}>
            Approve…
          </button>
          <button type="button" onClick={() => ask("reject")}>
            Reject…
          </button>
        </div>
      )}
      {asking !== null && <Decision gate={gate} edge={edge} verdict={asking} onDone={() => ask(null)} />}
    </li>
  );
}

/** What a release has to pass on its way into a stage. */
export function Gates({ edge }: { readonly edge: Edge }) {
  return (
    <ul className="gates" aria-label={`Gates from ${edge.from.name} to ${edge.to.name}`}>
      <li className="gate-from">
        {edge.from.name} → {edge.to.name} {edge.release !== null && <strong>#{edge.release.number}</strong>}
      </li>
      {edge.gates.map((gate) => (
        <GateLine key={gate.id} gate={gate} edge={edge} />
      ))}
      {edge.gates.length === 0 && <li className="quiet">no gate</li>}
      {edge.reason !== "" && <li className="why">{edge.reason}</li>}
    </ul>
  );
}
