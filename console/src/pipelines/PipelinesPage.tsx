import { useState } from "react";
import { useMutation, useQuery, useSubscription } from "urql";
import { Link } from "wouter";
import { ApproveDocument, PipelineDeltaDocument, PipelinesDocument, RejectDocument, type PipelineBoardFragment } from "../api/generated";
import { Age } from "../ui/Age";
import { Confirm } from "../ui/Confirm";
import { Empty } from "../ui/Empty";
import { Problem } from "../ui/Problem";
import { Skeleton } from "../ui/Skeleton";
import { Status, type Tone } from "../ui/Status";
import { serviceStatus } from "../services/status";
import "./pipelines.css";

type Stage = PipelineBoardFragment["stages"][number];
type Edge = PipelineBoardFragment["edges"][number];
type Gate = Edge["gates"][number];

const HEALTH: Record<string, readonly [Tone, string]> = {
  HEALTHY: ["ok", "Healthy"],
  PROGRESSING: ["busy", "On its way"],
  FAILED: ["bad", "Failed"],
};

const GATE: Record<string, readonly [Tone, string]> = {
  OPEN: ["ok", "Open"],
  PENDING: ["warn", "Waits"],
  RUNNING: ["busy", "Running"],
  CLOSED: ["bad", "Closed"],
};

function StageCard({ stage }: { readonly stage: Stage }) {
  const [tone, word] = HEALTH[stage.health] ?? ["idle", "Empty"];
  return (
    <section className="stage" aria-label={`Stage ${stage.name}`}>
      <header>
        <h2>{stage.name}</h2>
        <Status tone={tone}>{word}</Status>
      </header>
      {stage.release === null ? (
        <p className="quiet">no release yet</p>
      ) : (
        <p>
          <strong>#{stage.release.number}</strong> {stage.release.author} <Age at={stage.release.seenAt} />
        </p>
      )}
      {stage.reason !== "" && <p className="wide">{stage.reason}</p>}
      <ul>
        {stage.services.map(({ service }) => {
          const { tone, word } = serviceStatus(service.status);
          return (
            <li key={service.id}>
              <Link href={`/services/${service.id}`}>{service.name}</Link>
              <span className="quiet">{service.cluster?.handle}</span>
              <Status tone={tone}>{word}</Status>
            </li>
          );
        })}
      </ul>
    </section>
  );
}

function GateLine({ gate, edge }: { readonly gate: Gate; readonly edge: Edge }) {
  const [asking, ask] = useState<"approve" | "reject" | null>(null);
  const [tone, word] = GATE[gate.state] ?? ["idle", gate.state];
  const decidable = gate.type === "APPROVAL" && gate.state !== "OPEN" && edge.release !== null;
  return (
    <li>
      <Status tone={tone} title={gate.reason}>{`${gate.name}: ${word}`}</Status>
      <p className="quiet">{gate.reason}</p>
      {decidable && (
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

type DecisionProps = { readonly gate: Gate; readonly edge: Edge; readonly verdict: "approve" | "reject"; readonly onDone: () => void };

function Decision({ gate, edge, verdict, onDone }: DecisionProps) {
  const [comment, setComment] = useState("");
  const [approved, approve] = useMutation(ApproveDocument);
  const [rejected, reject] = useMutation(RejectDocument);
  const error = approved.error ?? rejected.error;
  const decide = async () => {
    const digests = edge.digests.map(({ serviceId, digest }) => ({ serviceId, digest }));
    const result =
      verdict === "approve"
        ? await approve({ gate: gate.id, digests, comment })
        : await reject({ gate: gate.id, comment });
    if (result.error === undefined) onDone();
  };
  return (
    <Confirm
      title={`${verdict === "approve" ? "Approve" : "Reject"} release #${edge.release?.number ?? "?"} for ${edge.to.name}?`}
      action={verdict === "approve" ? "Approve exactly this" : "Reject it"}
      onCancel={onDone}
      onConfirm={() => void decide()}
    >
      {error !== undefined && <Problem error={error} />}
      <table className="table">
        <tbody>
          {edge.digests.map(({ serviceId, sha, digest }) => (
            <tr key={serviceId}>
              <td>
                <code>{sha.slice(0, 12)}</code>
              </td>
              <td>
                <code>{digest.slice(0, 19)}…</code>
              </td>
            </tr>
          ))}
        </tbody>
      </table>
      <label>
        Comment
        <textarea rows={2} value={comment} onChange={(event) => setComment(event.target.value)} />
      </label>
    </Confirm>
  );
}

function Board({ pipeline }: { readonly pipeline: PipelineBoardFragment }) {
  return (
    <article className="pipeline">
      <header className="bar">
        <h1>{pipeline.name}</h1>
        {pipeline.paused !== null && <Status tone="warn">{`Paused: ${pipeline.paused}`}</Status>}
      </header>
      <div className="board">
        {pipeline.stages.map((stage) => (
          <div key={stage.id} className="column">
            {pipeline.edges
              .filter(({ to, gates }) => to.id === stage.id && gates.length > 0)
              .map((edge) => (
                <ul key={edge.id} className="gates" aria-label={`Gates from ${edge.from.name} to ${edge.to.name}`}>
                  {edge.gates.map((gate) => (
                    <GateLine key={gate.id} gate={gate} edge={edge} />
                  ))}
                </ul>
              ))}
            <StageCard stage={stage} />
          </div>
        ))}
      </div>
    </article>
  );
}

/** Every pipeline as a board: stages side by side, the gates before each. */
export function PipelinesPage() {
  const [{ data, error }] = useQuery({ query: PipelinesDocument });
  useSubscription({ query: PipelineDeltaDocument });
  if (error !== undefined && data === undefined) return <Problem error={error} />;
  if (data === undefined) return <Skeleton lines={10} />;
  if (data.pipelines.edges.length === 0)
    return (
      <Empty title="No pipelines yet">
        A pipeline moves a change from stage to stage: <code>towline pipelines apply -f pipeline.yaml</code>
      </Empty>
    );
  return data.pipelines.edges.map(({ node }) => <Board key={node.id} pipeline={node} />);
}
