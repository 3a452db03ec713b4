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

/** Access tokens for programs that act as the user. */
export function Tokens() {
  const [{ data, error }, refetch] = useQuery({ query: TokensDocument });
  const [made, create] = useMutation(CreateTokenDocument);
  const [revoked, revoke] = useMutation(RevokeTokenDocument);
  const [chosen, choose] = useState<{ readonly id: string; readonly name: string } | null>(null);
  if (error !== undefined && data == null) return <Problem error={error} />;
  if (data == null) return <Skeleton lines={4} />;
  const problem = made.error ?? revoked.error;
  const submit = async (event: SubmitEvent<HTMLFormElement>) => {
    event.preventDefault();
    const form = new FormData(event.currentTarget);
    await create({ attributes: { name: textOf(form, "name"), expiresInDays: Number(textOf(form, "days")) } });
    refetch({ requestPolicy: "network-only" });
  };
  const end = async () => {
    if (chosen !== null) await revoke({ id: chosen.id });
    choose(null);
  };
  const secret = made.data?.createAccessToken.token;
  return (
    <div className="stack">
      <form className="bar" onSubmit={(event) => void submit(event)}>
        <label>
          Name <input name="name" required maxLength={255} placeholder="nightly job" />
        </label>
        <label>
          Expires in days <input name="days" type="number" min={1} max={365} defaultValue={90} />
        </label>
        <button className="primary" disabled={made.fetching}>
          Create token
        </button>
      </form>
      {problem !== undefined && <Problem error={problem} />}
      {secret != null && <Secret title="New token" text={secret} />}
      <Table label="Tokens" titles={["Token", "Created", "Last used", "Expires", ""]}>
        {data.accessTokens.map((token) => (
          <tr key={token.id}>
            <td>{token.name}</td>
            <td>
              <Age at={token.insertedAt} />
            </td>
            <td>
              <Age at={token.lastUsedAt} />
            </td>
            <td>{token.revokedAt === null ? token.expiresAt?.slice(0, 10) : "revoked"}</td>
            <td>
              {token.revokedAt === null && (
                <button type="button" onClick={() => choose(token)}>
                  Revoke…
                </button>
              )}
            </td>
          </tr>
        ))}
      </Table>
      {chosen !== null && (
        <Confirm title={`Revoke ${chosen.name}?`} action="Revoke token" onConfirm={() => void end()} onCancel={() => choose(null)}>
          <p>Programs that use this token lose access immediately, and their open sessions end within seconds.</p>
        </Confirm>
      )}
    </div>
  );
}
