import { useState } from "react";
import { useMutation } from "urql";
import { DecideRotationDocument, type SecretDetailQuery, type SecretRotationDecision, type SecretRowFragment } from "../api/generated";
import { Age } from "../ui/Age";
import { Confirm } from "../ui/Confirm";
import { Problem } from "../ui/Problem";
import { Status } from "../ui/Status";
import { toast } from "../ui/toast";
import { DECISIONS, PHASES } from "./rotation";

/** How far a new version has come, and what somebody can decide about it. */
export function RotationCard({ secret, uses }: { readonly secret: SecretRowFragment; readonly uses: SecretDetailQuery["secretConsumers"] }) {
  const [{ error, fetching }, decide] = useMutation(DecideRotationDocument);
  const [asking, ask] = useState<SecretRotationDecision | null>(null);
  const { rotation } = secret;
  if (rotation === null) return null;
  const phase = PHASES[rotation.phase];
  const following = uses.filter(({ pinned }) => !pinned);
  const reached = following.filter(({ version, applied }) => version === rotation.newVersion && applied).length;
  const go = async (decision: SecretRotationDecision) => {
    ask(null);
    const result = await decide({ id: secret.id, decision });
    if (result.error === undefined) toast(`${DECISIONS[decision]}: it is done.`);
  };
  return (
    <section className="card stack" aria-label="Rotation">
      <h2>
        <span>
          Version {rotation.oldVersion} → {rotation.newVersion}{" "}
          <Status tone={phase.tone} pill>
            {phase.word}
          </Status>
        </span>
        <small>
          begun by {rotation.beganBy} <Age at={rotation.beganAt} />
        </small>
      </h2>
      <p>
        {phase.text} {rotation.reason}
      </p>
      {rotation.endedAt === null && following.length > 0 && (
        <label>
          {reached} of {following.length} services have it <progress value={reached} max={following.length} />
        </label>
      )}
      {error !== undefined && <Problem error={error} />}
      {phase.decisions.length > 0 && (
        <div className="bar">
          {phase.decisions.map((one) => (
            <button key={one} type="button" className={one === "REVOKE" ? "danger" : ""} disabled={fetching} onClick={() => (one === "REVOKE" ? ask(one) : void go(one))}>
              {DECISIONS[one]}
              {one === "REVOKE" && "…"}
            </button>
          ))}
        </div>
      )}
      {asking !== null && (
        <Confirm title={`Destroy version ${rotation.oldVersion} of ${secret.name}?`} action="Destroy it" typed={secret.name} onCancel={() => ask(null)} onConfirm={() => void go(asking)}>
          <p>Its value cannot be had again. Nobody uses it any more, as far as agents have told.</p>
        </Confirm>
      )}
    </section>
  );
}
