import { useMemo, useState } from "react";
import { useMutation, useQuery } from "urql";
import { ApprovalsDocument, HistoryDocument, PipelineOfDocument, RollbackDocument } from "../api/generated";
import { useRefetch } from "../live/useRefetch";
import { resultOf, took } from "../reports/deployments";
import { Age } from "../ui/Age";
import { Clip } from "../ui/Clip";
import { Confirm } from "../ui/Confirm";
import { Person } from "../ui/Person";
import { Problem } from "../ui/Problem";
import { Skeleton } from "../ui/Skeleton";
import { STATES } from "../ui/states";
import { Status } from "../ui/Status";
import { Table } from "../ui/Table";
import { toast } from "../ui/toast";
import { inverseOf } from "../undo/inverses";
import { approvalsOf, deploymentsOf, partialSyncsOf, type PartialSync, type ServiceDeploymentRow } from "./deployments";
import { ServiceChanges } from "./ServiceChanges";
import type { Service } from "./service";

const PAGE_SIZE = 50;
const MAX_ROWS = 500;
const TITLES = ["Compare", "Started", "Result", "Duration", "Cause", "Commit", "Subject", "Caused by", "Approvals", ""];

type RowProps = {
  readonly deployment: ServiceDeploymentRow;
  readonly approvals: readonly string[];
  readonly isCurrent: boolean;
  readonly isCompared: boolean;
  readonly onCompare: () => void;
  readonly onRollback: () => void;
};

function Row({ deployment, approvals, isCurrent, isCompared, onCompare, onRollback }: RowProps) {
  const { desiredAt, sha, revision, actor, cause, digest, message } = deployment;
  return (
    <tr className={isCompared ? "chosen" : undefined}>
      <td>
        <input type="checkbox" aria-label={`Compare ${sha?.slice(0, 8) ?? "deployment"} of ${desiredAt}`} checked={isCompared} disabled={digest === null} onChange={onCompare} />
      </td>
      <td>
        <Age at={desiredAt} />
      </td>
      <td className="wide">
        <Status state={resultOf(deployment)} /> {isCurrent && <Status state={STATES.current} pill />}
      </td>
      <td>{took(deployment)}</td>
      <td title={message}>
        <Clip>{cause}</Clip>
      </td>
      <td>
        <code>{sha?.slice(0, 8)}</code>
      </td>
      <td className="wide">{revision?.subject}</td>
      <td>
        <Clip>
          <Person author={actor} />
        </Clip>
      </td>
      <td className="wide">{approvals.join(", ")}</td>
      <td>
        {!isCurrent && revision !== undefined && (
          <button type="button" onClick={onRollback}>
            Roll back…
          </button>
        )}
      </td>
    </tr>
  );
}

/** Syncs of some objects: they are no deployments, so they have a table of their own. */
function PartialSyncs({ syncs }: { readonly syncs: readonly PartialSync[] }) {
  if (syncs.length === 0) return null;
  return (
    <section className="stack">
      <h2>Partial syncs</h2>
      <Table label="Partial syncs" titles={["Time", "Result", "Objects", "Caused by"]}>
        {syncs.map(({ id, at, result, message, actor }) => (
          <tr key={id}>
            <td>
              <Age at={at} />
            </td>
            <td>
              <Status state={result === "succeeded" ? STATES.succeeded : result === "refused" ? STATES.denied : STATES.failed} />
            </td>
            <td className="wide">{message}</td>
            <td>
              <Person author={actor} />
            </td>
          </tr>
        ))}
      </Table>
    </section>
  );
}

/** Events of the pipeline that deploys the service; none without a release. */
function usePipelineEvents(serviceId: string, hasReleases: boolean) {
  const [{ data }] = useQuery({ query: PipelineOfDocument, pause: !hasReleases });
  const id = data?.pipelines.edges.find(({ node }) => node.stages.some(({ services }) => services.some(({ service }) => service.id === serviceId)))?.node.id;
  const [approvals] = useQuery({ query: ApprovalsDocument, variables: { id: id ?? "" }, pause: id === undefined });
  return approvals.data?.pipeline?.history ?? [];
}

type CompareProps = { readonly serviceId: string; readonly older: ServiceDeploymentRow; readonly newer: ServiceDeploymentRow; readonly onClose: () => void };

function Comparison({ serviceId, older, newer, onClose }: CompareProps) {
  const [from, to] = [older, newer].map(({ sha, sequence }) => `${sha?.slice(0, 8) ?? "manifests"} (#${sequence})`);
  return (
    <section className="card stack" aria-label="Comparison">
      <h2>
        From {from} to {to}
        <button type="button" onClick={onClose}>
          Close comparison
        </button>
      </h2>
      {older.digest === newer.digest ? <p className="quiet">Both deployments have the same manifests.</p> : <ServiceChanges serviceId={serviceId} digest={newer.digest ?? ""} from={older.digest ?? ""} />}
    </section>
  );
}

function Rollback({ service, target, onDone }: { readonly service: Service; readonly target: NonNullable<ServiceDeploymentRow["revision"]>; readonly onDone: () => void }) {
  const [{ error }, rollback] = useMutation(RollbackDocument);
  const go = async () => {
    const result = await rollback({ id: service.id, revisionId: target.id });
    if (result.error !== undefined) return;
    toast(`${service.name} pinned to ${target.sha.slice(0, 8)}`, inverseOf(result, service));
    onDone();
  };
  return (
    <Confirm title={`Roll back ${service.name} to ${target.sha.slice(0, 8)}?`} action="Roll back" onCancel={onDone} onConfirm={() => void go()}>
      {error !== undefined && <Problem error={error} />}
      <p>
        “{target.subject}” by {target.author}. The service is then pinned to this commit and ignores new commits until you unpin it.
      </p>
      <div className="preview">
        <ServiceChanges serviceId={service.id} digest={target.digest} />
      </div>
    </Confirm>
  );
}

/** Deployments of a service with their result, cause and approvals; compares two, and rolls back. */
export function History({ service }: { readonly service: Service }) {
  const [first, setFirst] = useState(PAGE_SIZE);
  const [{ data, error }, refetch] = useQuery({ query: HistoryDocument, variables: { id: service.id, first }, requestPolicy: "cache-and-network" });
  useRefetch(refetch, `${service.digest ?? ""} ${service.status}`, service.id);
  const [target, choose] = useState<ServiceDeploymentRow["revision"]>();
  const [compared, compare] = useState<readonly number[]>([]);
  const rows = useMemo(() => (data == null ? [] : deploymentsOf(data)), [data]);
  const events = usePipelineEvents(service.id, rows.some(({ release }) => release !== ""));
  if (error !== undefined && data == null) return <Problem error={error} />;
  if (data == null) return <Skeleton lines={8} />;
  if (rows.length === 0) return <p className="quiet">No deployments yet.</p>;
  const current = rows.find(({ revisionId, replacedAt }) => replacedAt === null && revisionId === service.revision?.id)?.sequence;
  const toggle = (sequence: number) => compare(compared.includes(sequence) ? compared.filter((known) => known !== sequence) : [...compared.slice(-1), sequence]);
  const [older, newer] = rows.filter(({ sequence }) => compared.includes(sequence)).sort((left, right) => left.sequence - right.sequence);
  return (
    <div className="stack">
      {older !== undefined && newer !== undefined ? <Comparison serviceId={service.id} older={older} newer={newer} onClose={() => compare([])} /> : <p className="quiet">Select two deployments to compare their manifests.</p>}
      <Table label="Deployments" titles={TITLES}>
        {rows.map((deployment) => (
          <Row
            key={deployment.sequence}
            deployment={deployment}
            approvals={approvalsOf(deployment.release, events)}
            isCurrent={deployment.sequence === current}
            isCompared={compared.includes(deployment.sequence)}
            onCompare={() => toggle(deployment.sequence)}
            onRollback={() => choose(deployment.revision)}
          />
        ))}
      </Table>
      {rows.length === first && first < MAX_ROWS && (
        <button type="button" className="more" onClick={() => setFirst(Math.min(MAX_ROWS, first + 100))}>
          Show more
        </button>
      )}
      <PartialSyncs syncs={partialSyncsOf(data)} />
      {target !== undefined && <Rollback service={service} target={target} onDone={() => choose(undefined)} />}
    </div>
  );
}
