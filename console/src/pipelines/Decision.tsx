import { Fragment, useState } from "react";
import { useMutation } from "urql";
import { ApproveDocument, RejectDocument } from "../api/generated";
import { ServiceChanges } from "../services/ServiceChanges";
import { Confirm } from "../ui/Confirm";
import { Problem } from "../ui/Problem";
import { toast } from "../ui/toast";
import { FleetWide } from "./FleetWide";
import type { Asked, Gate } from "./stages";

type Props = { readonly gate: Gate; readonly asked: Asked; readonly verdict: "approve" | "reject"; readonly onDone: () => void };

// What more services would have changed is grouped by what it is.
const MOST_COMPARED = 20;

function Digest({ one: { serviceId, service, sha, digest }, isCompared }: { readonly one: Asked["digests"][number]; readonly isCompared: boolean }) {
  return (
    <section>
      <p className="quiet">
        <strong>{service}</strong> commit <code>{sha.slice(0, 12)}</code> digest <code>{digest}</code>
      </p>
      {isCompared && <ServiceChanges serviceId={serviceId} gitRef={sha} expected={digest} />}
    </section>
  );
}

/** What each commit of a release would change: in the services that it is about, if they are many, and in the fleet. */
function Wide({ digests }: { readonly digests: Asked["digests"] }) {
  const commits = new Map(digests.map((one) => [one.sha, one.serviceId]));
  return [...commits].map(([sha, serviceId]) => {
    const commit = sha.slice(0, 12);
    const own = digests.flatMap((one) => (one.sha === sha ? [one.serviceId] : []));
    return (
      <Fragment key={sha}>
        {digests.length > MOST_COMPARED && <FleetWide title={`What ${commit} would change here`} serviceId={serviceId} sha={sha} serviceIds={own} />}
        <FleetWide title={`What ${commit} would change in the whole fleet`} serviceId={serviceId} sha={sha} serviceIds={null} />
      </Fragment>
    );
  });
}

/** Approves or rejects: above the button stands exactly what is decided, and what it would change. */
export function Decision({ gate, asked, verdict, onDone }: Props) {
  const [comment, setComment] = useState("");
  const [approved, approve] = useMutation(ApproveDocument);
  const [rejected, reject] = useMutation(RejectDocument);
  const error = approved.error ?? rejected.error;
  const isYes = verdict === "approve";
  const decide = async () => {
    const digests = asked.digests.map(({ serviceId, digest }) => ({ serviceId, digest }));
    const result = isYes ? await approve({ gate: gate.id, digests, comment }) : await reject({ gate: gate.id, comment });
    if (result.error !== undefined) return;
    toast(isYes ? `Approved: exactly these digests may ${asked.within ? "stay in" : "enter"} ${asked.stage}.` : "Rejected.");
    onDone();
  };
  return (
    <Confirm
      title={`${isYes ? "Approve" : "Reject"} release #${asked.release?.number ?? "?"} for ${asked.stage}?`}
      action={isYes ? "Approve exactly this" : "Reject it"}
      onCancel={onDone}
      onConfirm={() => void decide()}
    >
      {error !== undefined && <Problem error={error} />}
      <div className="preview stack">
        {asked.digests.map((one) => (
          <Digest key={one.serviceId} one={one} isCompared={asked.digests.length <= MOST_COMPARED} />
        ))}
        {asked.digests.length === 0 && <p className="quiet">It is not rendered for this stage yet.</p>}
      </div>
      {isYes && <Wide digests={asked.digests} />}
      <label>
        Comment
        <textarea rows={2} value={comment} maxLength={2000} onChange={(event) => setComment(event.target.value)} />
      </label>
    </Confirm>
  );
}
