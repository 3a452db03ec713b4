import { useState } from "react";
import { useMutation, useQuery, useSubscription } from "urql";
import { Link, useLocation, useParams } from "wouter";
import { codeOf } from "../api/client";
import { DeleteSecretDocument, RefreshSecretDocument, SecretDetailDocument, SecretLiveDocument, type SecretDetailQuery, type SecretRowFragment } from "../api/generated";
import { useRefetch } from "../live/useRefetch";
import { Age } from "../ui/Age";
import { Confirm } from "../ui/Confirm";
import { ResourceNotFound } from "../ui/ResourceNotFound";
import { AsYaml } from "../manage/AsYaml";
import { Problem } from "../ui/Problem";
import { Skeleton } from "../ui/Skeleton";
import { Status } from "../ui/Status";
import { Table } from "../ui/Table";
import { useParam } from "../ui/useParam";
import { stateOf } from "./rotation";
import { storeOf } from "./source";
import { RotationCard } from "./RotationCard";
import { UseCells } from "./UseCells";
import { ValueForm } from "./ValueForm";
import { Versions } from "./Versions";
import "../services/service.css";

type Secret = SecretRowFragment;

function Uses({ uses }: { readonly uses: SecretDetailQuery["secretConsumers"] }) {
  if (uses.length === 0) return <p className="quiet">No services use this secret.</p>;
  return (
    <Table label="Consumers" titles={["Service", "Name", "Version", "In the cluster", "Changed"]}>
      {uses.map((use) => (
        <tr key={use.id}>
          <td>
            <Link href={`/services/${use.serviceId}?tab=values`}>{use.serviceName}</Link>
          </td>
          <td>
            <code>{use.name}</code>
          </td>
          <UseCells use={use} />
        </tr>
      ))}
    </Table>
  );
}

function Actions({ secret }: { readonly secret: Secret }) {
  const [, set] = useParam("set");
  const [dialog, setDialog] = useState(false);
  const [read, readAgain] = useMutation(RefreshSecretDocument);
  const [deleted, remove] = useMutation(DeleteSecretDocument);
  const [, go] = useLocation();
  const error = read.error ?? deleted.error;
  const end = async () => {
    setDialog(false);
    const result = await remove({ id: secret.id });
    if (result.error === undefined) go("/secrets");
  };
  return (
    <>
      {secret.source !== null && (
        <button type="button" disabled={read.fetching} onClick={() => void readAgain({ id: secret.id })}>
          Refresh now
        </button>
      )}
      <button type="button" onClick={() => setDialog(true)}>
        Delete…
      </button>
      <button type="button" className="primary" onClick={() => set("1")}>
        New version
      </button>
      {error !== undefined && <Problem error={error} />}
      {dialog && (
        <Confirm title={`Delete ${secret.name}?`} action="Delete secret" typed={secret.name} onCancel={() => setDialog(false)} onConfirm={() => void end()}>
          <p>Destroys all versions. A secret that a service uses cannot be deleted.</p>
        </Confirm>
      )}
    </>
  );
}

/** Page of one secret: rotation, consumers and versions, without values. */
export function SecretPage() {
  const { id } = useParams<{ id: string }>();
  const [isSetting, set] = useParam("set");
  const [{ data, error }, refetch] = useQuery({ query: SecretDetailDocument, variables: { id } });
  const [moved] = useSubscription({ query: SecretLiveDocument, variables: { id }, pause: data == null });
  useRefetch(refetch, JSON.stringify(moved.data?.secretDelta.payload ?? null));
  if (codeOf(error) === "NOT_FOUND" || data?.secret === null) return <ResourceNotFound kind="secret" />;
  if (error !== undefined && data == null) return <Problem error={error} />;
  if (data?.secret == null) return <Skeleton lines={10} />;
  const { secret, secretVersions, secretConsumers } = data;
  return (
    <article className="stack">
      <header className="service-head">
        <div>
          <p className="crumbs">
            <Link href="/secrets">Secrets</Link> {secret.project !== null && <>/ {secret.project.name}</>}
          </p>
          <h1>
            {secret.name}{" "}
            <Status state={stateOf(secret)} pill />
          </h1>
          <p className="quiet">
            {secret.description !== null && secret.description !== "" && <>{secret.description}. </>}
            Stored in {storeOf(secret)}
            {secret.refreshedAt !== null && (
              <>
                , last read <Age at={secret.refreshedAt} />
              </>
            )}
          </p>
        </div>
        <span className="fill" />
        <Actions secret={secret} />
        <AsYaml kind="Secret" name={secret.name} />
      </header>
      {secret.problem !== null && (
        <ul className="problems">
          <li>{secret.problem}</li>
        </ul>
      )}
      {isSetting !== "" && <ValueForm secret={secret} onDone={() => set("")} />}
      <RotationCard secret={secret} uses={secretConsumers} />
      <section className="part">
        <h2>Consumers</h2>
        <Uses uses={secretConsumers} />
      </section>
      <section className="part">
        <h2>Versions</h2>
        <Versions secret={secret} versions={secretVersions} used={new Set(secretConsumers.map(({ version }) => version))} />
      </section>
    </article>
  );
}
