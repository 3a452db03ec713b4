import { useState } from "react";
import { useMutation } from "urql";
import { DecideRotationDocument, type SecretDetailQuery, type SecretRotationDecision, type SecretRowFragment } from "../api/generated";
import { counted } from "../text/counts";
import { Age } from "../ui/Age";
import { Confirm } from "../ui/Confirm";
import { Problem } from "../ui/Problem";
import { ROTATION_STATES } from "../ui/states";
import { Status } from "../ui/Status";
import { toast } from "../ui/toast";
import { DECIDED, DECISIONS, PHASES } from "./rotation";

/** Progress of a rotation, with the decisions that it allows. */
export function RotationCard({ secret, uses }: { readonly secret: SecretRowFragment; readonly uses: SecretDetailQuery["secretConsumers"] }) {
  const [{ error, fetching }, decide] = useMutation(DecideRotationDocument);
  const [dialog, setDialog] = useState<SecretRotationDecision | null>(null);
  const { rotation } = secret;
  if (rotation === null) return null;
  const phase = PHASES[rotation.phase];
  const following = uses.filter(({ pinned }) => !pinned);
  const reached = following.filter(({ version, applied }) => version === rotation.newVersion && applied).length;
  const go = async (decision: SecretRotationDecision) => {
    setDialog(null);
    const result = await decide({ id: secret.id, decision });
    if (result.error === undefined) toast(DECIDED[decision]);
  };
  return (
    <section className="card stack" aria-label="Rotation">
      <h2>
        <span>
          Version {rotation.oldVersion} → {rotation.newVersion}{" "}
          <Status state={ROTATION_STATES[rotation.phase]} pill />
        </span>
        <small>
          started by {rotation.startedBy} <Age at={rotation.startedAt} />
        </small>
      </h2>
      <p>
        {phase.text} {rotation.reason}
      </p>
      {rotation.endedAt === null && following.length > 0 && (
        <label>
          {reached} of {counted(following.length, "service")} updated <progress value={reached} max={following.length} />
        </label>
      )}
      {error !== undefined && <Problem error={error} />}
      {phase.decisions.length > 0 && (
        <div className="bar">
          {phase.decisions.map((decision) => (
            <button key={decision} type="button" className={decision === "REVOKE" ? "danger" : ""} disabled={fetching} onClick={() => (decision === "REVOKE" ? setDialog(decision) : void go(decision))}>
              {DECISIONS[decision]}
              {decision === "REVOKE" && "…"}
            </button>
          ))}
        </div>
      )}
      {dialog !== null && (
        <Confirm title={`Destroy version ${rotation.oldVersion} of ${secret.name}?`} action="Destroy version" typed={secret.name} onCancel={() => setDialog(null)} onConfirm={() => void go(dialog)}>
          <p>This cannot be undone. According to the last agent reports, no service uses this version.</p>
        </Confirm>
      )}
    </section>
  );
}
