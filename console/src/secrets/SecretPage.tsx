import { useState } from "react";
import { useMutation, useQuery, useSubscription } from "urql";
import { Link, useLocation, useParams } from "wouter";
import { codeOf, refresh } from "../api/client";
import {
  DecideRotationDocument,
  DeleteSecretDocument,
  RefreshSecretDocument,
  RevokeVersionDocument,
  SecretDetailDocument,
  SecretLiveDocument,
  type SecretDetailQuery,
  type SecretRotationDecision,
  type SecretRowFragment,
} from "../api/generated";
import { useAgain } from "../live/useAgain";
import { Age } from "../ui/Age";
import { Confirm } from "../ui/Confirm";
import { NotThere } from "../ui/NotThere";
import { Problem } from "../ui/Problem";
import { Skeleton } from "../ui/Skeleton";
import { Status } from "../ui/Status";
import { Table } from "../ui/Table";
import { toast } from "../ui/toast";
import { useParam } from "../ui/useParam";
import { DECISIONS, keptIn, PHASES, stateOf } from "./rotation";
import { UseCells } from "./UseCells";
import { ValueForm } from "./ValueForm";
import "../services/service.css";

type Secret = SecretRowFragment;

function Rotation({ secret, uses }: { readonly secret: Secret; readonly uses: SecretDetailQuery["secretConsumers"] }) {
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

function Uses({ uses }: { readonly uses: SecretDetailQuery["secretConsumers"] }) {
  if (uses.length === 0) return <p className="quiet">No service uses it.</p>;
  return (
    <Table label="Who uses it" titles={["Service", "As", "Version", "In the cluster", "Changed"]}>
      {uses.map((one) => (
        <tr key={one.id}>
          <td>
            <Link href={`/services/${one.serviceId}?tab=values`}>{one.serviceName}</Link>
          </td>
          <td>
            <code>{one.name}</code>
          </td>
          <UseCells use={one} />
        </tr>
      ))}
    </Table>
  );
}

function Versions({ secret, versions, used }: { readonly secret: Secret; readonly versions: SecretDetailQuery["secretVersions"]; readonly used: ReadonlySet<number> }) {
  const [{ error }, revoke] = useMutation(RevokeVersionDocument);
  const [leaving, leave] = useState<number | null>(null);
  const end = async (number: number) => {
    leave(null);
    const result = await revoke({ id: secret.id, number });
    if (result.error === undefined) refresh();
  };
  return (
    <>
      {error !== undefined && <Problem error={error} />}
      <Table label="Versions" titles={["Version", "Set", "By", "State", ""]}>
        {versions.map(({ id, number, insertedAt, actor, revokedAt }) => (
          <tr key={id}>
            <td>{number}</td>
            <td>
              <Age at={insertedAt} />
            </td>
            <td>{actor}</td>
            <td>
              {revokedAt !== null ? <Status tone="idle">Destroyed</Status> : number === secret.currentVersion ? <Status tone="ok">Given to services</Status> : <Status tone="idle">Kept</Status>}
            </td>
            <td>
              {revokedAt === null && number !== secret.currentVersion && !used.has(number) && (
                <button type="button" onClick={() => leave(number)}>
                  Destroy…
                </button>
              )}
            </td>
          </tr>
        ))}
      </Table>
      {leaving !== null && (
        <Confirm title={`Destroy version ${leaving} of ${secret.name}?`} action="Destroy it" typed={secret.name} onCancel={() => leave(null)} onConfirm={() => void end(leaving)}>
          <p>Its value cannot be had again.</p>
        </Confirm>
      )}
    </>
  );
}

function Actions({ secret }: { readonly secret: Secret }) {
  const [, set] = useParam("set");
  const [asking, ask] = useState(false);
  const [read, readAgain] = useMutation(RefreshSecretDocument);
  const [deleted, remove] = useMutation(DeleteSecretDocument);
  const [, go] = useLocation();
  const error = read.error ?? deleted.error;
  const end = async () => {
    ask(false);
    const result = await remove({ id: secret.id });
    if (result.error === undefined) go("/secrets");
  };
  return (
    <>
      {secret.source !== null && (
        <button type="button" disabled={read.fetching} onClick={() => void readAgain({ id: secret.id })}>
          Read it now
        </button>
      )}
      <button type="button" onClick={() => ask(true)}>
        Delete…
      </button>
      <button type="button" className="primary" onClick={() => set("1")}>
        New version
      </button>
      {error !== undefined && <Problem error={error} />}
      {asking && (
        <Confirm title={`Delete ${secret.name}?`} action="Delete it" typed={secret.name} onCancel={() => ask(false)} onConfirm={() => void end()}>
          <p>All its values are destroyed. It is refused while a service uses it.</p>
        </Confirm>
      )}
    </>
  );
}

/** One secret: how its rotation goes, who has which version, and no value. */
export function SecretPage() {
  const { id } = useParams<{ id: string }>();
  const [isSetting, set] = useParam("set");
  const [{ data, error }, again] = useQuery({ query: SecretDetailDocument, variables: { id } });
  const [moved] = useSubscription({ query: SecretLiveDocument, variables: { id }, pause: data == null });
  useAgain(again, JSON.stringify(moved.data?.secretDelta.payload ?? null));
  if (codeOf(error) === "NOT_FOUND" || data?.secret === null) return <NotThere what="secret" />;
  if (error !== undefined && data == null) return <Problem error={error} />;
  if (data?.secret == null) return <Skeleton lines={10} />;
  const { secret, secretVersions, secretConsumers } = data;
  const [tone, word] = stateOf(secret);
  return (
    <article className="stack">
      <header className="service-head">
        <div>
          <p className="crumbs">
            <Link href="/secrets">Secrets</Link> {secret.project !== null && <>/ {secret.project.name}</>}
          </p>
          <h1>
            {secret.name}{" "}
            <Status tone={tone} pill>
              {word}
            </Status>
          </h1>
          <p className="quiet">
            {secret.description !== null && secret.description !== "" && <>{secret.description}. </>}
            Kept {keptIn(secret)}
            {secret.refreshedAt !== null && (
              <>
                , read <Age at={secret.refreshedAt} />
              </>
            )}
          </p>
        </div>
        <span className="fill" />
        <Actions secret={secret} />
      </header>
      {secret.problem !== null && (
        <ul className="problems">
          <li>{secret.problem}</li>
        </ul>
      )}
      {isSetting !== "" && <ValueForm secret={secret} onDone={() => set("")} />}
      <Rotation secret={secret} uses={secretConsumers} />
      <section className="part">
        <h2>Who uses it</h2>
        <Uses uses={secretConsumers} />
      </section>
      <section className="part">
        <h2>Versions</h2>
        <Versions secret={secret} versions={secretVersions} used={new Set(secretConsumers.map(({ version }) => version))} />
      </section>
    </article>
  );
}
