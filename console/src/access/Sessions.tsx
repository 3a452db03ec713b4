import { useState } from "react";
import { useMutation, useQuery } from "urql";
import { CSRF } from "../api/client";
import { SessionsDocument, SignOutEverywhereDocument } from "../api/generated";
import { signedOut } from "../api/session";
import { Age } from "../ui/Age";
import { Confirm } from "../ui/Confirm";
import { Problem } from "../ui/Problem";
import { Skeleton } from "../ui/Skeleton";
import { Table } from "../ui/Table";

/** Where one is signed in, and the way out. */
export function Sessions() {
  const [{ data, error }] = useQuery({ query: SessionsDocument });
  const [ended, endAll] = useMutation(SignOutEverywhereDocument);
  const leave = async () => {
    const response = await fetch("/oauth/session", { method: "DELETE", headers: CSRF });
    if (response.ok) signedOut();
  };
  const [asking, ask] = useState(false);
  const everywhere = async () => {
    const result = await endAll({});
    ask(false);
    if (result.error === undefined) signedOut();
  };
  if (error !== undefined && data == null) return <Problem error={error} />;
  if (data == null) return <Skeleton lines={4} />;
  return (
    <>
      <div className="bar">
        <button type="button" onClick={() => void leave()}>
          Sign out
        </button>
        <button type="button" className="danger" onClick={() => ask(true)}>
          Sign out everywhere…
        </button>
      </div>
      {ended.error !== undefined && <Problem error={ended.error} />}
      {asking && (
        <Confirm title="Sign out everywhere?" action="Sign out everywhere" onCancel={() => ask(false)} onConfirm={() => void everywhere()}>
          <p>All sessions end, this one too. Tokens that you have made stay: revoke them one by one.</p>
        </Confirm>
      )}
      <Table label="Sessions" titles={["Session", "Since", "Used", "Until"]}>
        {data.sessions.map((one) => (
          <tr key={one.id}>
            <td>{one.name}</td>
            <td>
              <Age at={one.insertedAt} />
            </td>
            <td>
              <Age at={one.lastUsedAt} />
            </td>
            <td>{one.expiresAt?.slice(0, 16).replace("T", " ")}</td>
          </tr>
        ))}
      </Table>
    </>
  );
}
