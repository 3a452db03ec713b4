import { Fragment, useState } from "react";
import { useMutation } from "urql";
import { ApproveDocument, RejectDocument } from "../api/generated";
import { ServiceChanges } from "../services/ServiceChanges";
import { Confirm } from "../ui/Confirm";
import { Problem } from "../ui/Problem";
import { toast } from "../ui/toast";
import { FleetDiff } from "./FleetDiff";
import type { GateQuestion, Gate } from "./stages";

type Props = { readonly gate: Gate; readonly question: GateQuestion; readonly verdict: "approve" | "reject"; readonly isOutdated: boolean; readonly onDone: () => void };

// Above this number of services, equal changes are grouped.
const MAX_COMPARED = 20;

function Digest({ digest: { serviceId, service, sha, digest }, isCompared }: { readonly digest: GateQuestion["digests"][number]; readonly isCompared: boolean }) {
  return (
    <section>
      <p className="quiet">
        <strong>{service}</strong> commit <code>{sha.slice(0, 12)}</code> digest <code>{digest}</code>
      </p>
      {isCompared && <ServiceChanges serviceId={serviceId} gitRef={sha} expected={digest} />}
    </section>
  );
}

/** Changes of each commit of a release: in this stage, if it has many services, and in the fleet. */
function FleetDiffs({ digests }: { readonly digests: GateQuestion["digests"] }) {
  const commits = new Map(digests.map(({ sha, serviceId }) => [sha, serviceId]));
  return [...commits].map(([sha, serviceId]) => {
    const commit = sha.slice(0, 12);
    const own = digests.flatMap((digest) => (digest.sha === sha ? [digest.serviceId] : []));
    return (
      <Fragment key={sha}>
        {digests.length > MAX_COMPARED && <FleetDiff title={`Changes of ${commit} in this stage`} serviceId={serviceId} sha={sha} serviceIds={own} />}
        <FleetDiff title={`Changes of ${commit} in the whole fleet`} serviceId={serviceId} sha={sha} serviceIds={null} />
      </Fragment>
    );
  });
}

/** Dialog that approves or rejects a release; shows the exact digests and their changes. */
export function Decision({ gate, question, verdict, isOutdated, onDone }: Props) {
  const [comment, setComment] = useState("");
  const [approved, approve] = useMutation(ApproveDocument);
  const [rejected, reject] = useMutation(RejectDocument);
  const error = approved.error ?? rejected.error;
  const isLate = isOutdated && !approved.fetching && !rejected.fetching;
  const isApproval = verdict === "approve";
  const decide = async () => {
    const digests = question.digests.map(({ serviceId, digest }) => ({ serviceId, digest }));
    const result = isApproval ? await approve({ gate: gate.id, digests, comment }) : await reject({ gate: gate.id, comment });
    if (result.error !== undefined) return;
    toast(isApproval ? `Release approved for ${question.stage}` : "Release rejected");
    onDone();
  };
  return (
    <Confirm
      title={`${isApproval ? "Approve" : "Reject"} release #${question.release?.number ?? "?"} for ${question.stage}?`}
      action={isApproval ? "Approve release" : "Reject release"}
      disabled={isLate}
      onCancel={onDone}
      onConfirm={() => void decide()}
    >
      {isLate && (
        <p role="alert" className="why">
          This release no longer waits here, for example because a newer one took its place. Close the dialog to see what waits now.
        </p>
      )}
      {error !== undefined && <Problem error={error} />}
      <div className="preview stack">
        {question.digests.map((digest) => (
          <Digest key={digest.serviceId} digest={digest} isCompared={question.digests.length <= MAX_COMPARED} />
        ))}
        {question.digests.length === 0 && <p className="quiet">Not rendered for this stage yet.</p>}
      </div>
      {isApproval && <FleetDiffs digests={question.digests} />}
      <label>
        Comment
        <textarea rows={2} value={comment} maxLength={2000} onChange={(event) => setComment(event.target.value)} />
      </label>
    </Confirm>
  );
}
