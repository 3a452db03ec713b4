import { useState, type SubmitEvent } from "react";
import { useMutation, useQuery } from "urql";
import { CreateTokenDocument, RevokeTokenDocument, TokensDocument } from "../api/generated";
import { Age } from "../ui/Age";
import { Confirm } from "../ui/Confirm";
import { textOf } from "../ui/form";
import { Problem } from "../ui/Problem";
import { Secret } from "../ui/Secret";
import { Skeleton } from "../ui/Skeleton";
import { Table } from "../ui/Table";

/** Secrets for programs that act as oneself. */
export function Tokens() {
  const [{ data, error }, again] = useQuery({ query: TokensDocument });
  const [made, create] = useMutation(CreateTokenDocument);
  const [revoked, revoke] = useMutation(RevokeTokenDocument);
  const [leaving, leave] = useState<{ readonly id: string; readonly name: string } | null>(null);
  if (error !== undefined && data == null) return <Problem error={error} />;
  if (data == null) return <Skeleton lines={4} />;
  const problem = made.error ?? revoked.error;
  const submit = async (event: SubmitEvent<HTMLFormElement>) => {
    event.preventDefault();
    const form = new FormData(event.currentTarget);
    await create({ attributes: { name: textOf(form, "name"), expiresInDays: Number(textOf(form, "days")) } });
    again({ requestPolicy: "network-only" });
  };
  const end = async () => {
    if (leaving !== null) await revoke({ id: leaving.id });
    leave(null);
  };
  const secret = made.data?.createAccessToken.token;
  return (
    <div className="stack">
      <form className="bar" onSubmit={(event) => void submit(event)}>
        <label>
          For <input name="name" required maxLength={255} placeholder="nightly job" />
        </label>
        <label>
          days <input name="days" type="number" min={1} max={365} defaultValue={90} />
        </label>
        <button className="primary" disabled={made.fetching}>
          Make a token
        </button>
      </form>
      {problem !== undefined && <Problem error={problem} />}
      {secret != null && <Secret title="The new token" text={secret} />}
      <Table label="Tokens" titles={["Token", "Made", "Used", "Ends", ""]}>
        {data.accessTokens.map((one) => (
          <tr key={one.id}>
            <td>{one.name}</td>
            <td>
              <Age at={one.insertedAt} />
            </td>
            <td>
              <Age at={one.lastUsedAt} />
            </td>
            <td>{one.revokedAt === null ? one.expiresAt?.slice(0, 10) : "revoked"}</td>
            <td>
              {one.revokedAt === null && (
                <button type="button" onClick={() => leave(one)}>
                  Revoke…
                </button>
              )}
            </td>
          </tr>
        ))}
      </Table>
      {leaving !== null && (
        <Confirm title={`Revoke ${leaving.name}?`} action="Revoke it" onConfirm={() => void end()} onCancel={() => leave(null)}>
          <p>What uses it is refused from now on, and what it has opened ends within seconds.</p>
        </Confirm>
      )}
    </div>
  );
}
