import { useState } from "react";
import { useMutation, useQuery, useSubscription } from "urql";
import { Link, useLocation, useParams } from "wouter";
import { codeOf } from "../api/client";
import { DeleteSecretDocument, RefreshSecretDocument, SecretDetailDocument, SecretLiveDocument, type SecretDetailQuery, type SecretRowFragment } from "../api/generated";
import { useAgain } from "../live/useAgain";
import { Age } from "../ui/Age";
import { Confirm } from "../ui/Confirm";
import { NotThere } from "../ui/NotThere";
import { Problem } from "../ui/Problem";
import { Skeleton } from "../ui/Skeleton";
import { Status } from "../ui/Status";
import { Table } from "../ui/Table";
import { useParam } from "../ui/useParam";
import { keptIn, stateOf } from "./rotation";
import { RotationCard } from "./RotationCard";
import { UseCells } from "./UseCells";
import { ValueForm } from "./ValueForm";
import { Versions } from "./Versions";
import "../services/service.css";

type Secret = SecretRowFragment;

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
      <RotationCard secret={secret} uses={secretConsumers} />
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
