import { useState } from "react";
import { useMutation } from "urql";
import { ApproveDocument, RejectDocument } from "../api/generated";
import { ServiceChanges } from "../services/ServiceChanges";
import { Confirm } from "../ui/Confirm";
import { Problem } from "../ui/Problem";
import { toast } from "../ui/toast";
import { FleetWide } from "./FleetWide";
import type { Asked, Gate } from "./stages";

type Props = { readonly gate: Gate; readonly asked: Asked; readonly verdict: "approve" | "reject"; readonly onDone: () => void };

// Of more services only the digests stand there: what changes alike is grouped below.
const MOST_COMPARED = 20;

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
        {asked.digests.map(({ serviceId, service, sha, digest }, index) => (
          <section key={serviceId}>
            <p className="quiet">
              <strong>{service}</strong> commit <code>{sha.slice(0, 12)}</code> digest <code>{digest.slice(0, 23)}…</code>
            </p>
            {index < MOST_COMPARED && <ServiceChanges serviceId={serviceId} gitRef={sha} expected={digest} />}
          </section>
        ))}
        {asked.digests.length === 0 && <p className="quiet">It is not rendered for this stage yet.</p>}
      </div>
      {isYes && asked.digests[0] !== undefined && <FleetWide key={asked.digests[0].sha} serviceId={asked.digests[0].serviceId} sha={asked.digests[0].sha} />}
      <label>
        Comment
        <textarea rows={2} value={comment} maxLength={2000} onChange={(event) => setComment(event.target.value)} />
      </label>
    </Confirm>
  );
}
