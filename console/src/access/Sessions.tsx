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

/** Sign-in sessions of the user, with sign-out. */
export function Sessions() {
  const [{ data, error }] = useQuery({ query: SessionsDocument });
  const [ended, endAll] = useMutation(SignOutEverywhereDocument);
  const signOut = async () => {
    const response = await fetch("/oauth/session", { method: "DELETE", headers: CSRF });
    if (response.ok) signedOut();
  };
  const [dialog, setDialog] = useState(false);
  const signOutEverywhere = async () => {
    const result = await endAll({});
    setDialog(false);
    if (result.error === undefined) signedOut();
  };
  if (error !== undefined && data == null) return <Problem error={error} />;
  if (data == null) return <Skeleton lines={4} />;
  return (
    <>
      <div className="bar">
        <button type="button" onClick={() => void signOut()}>
          Sign out
        </button>
        <button type="button" className="danger" onClick={() => setDialog(true)}>
          Sign out everywhere…
        </button>
      </div>
      {ended.error !== undefined && <Problem error={ended.error} />}
      {dialog && (
        <Confirm title="Sign out everywhere?" action="Sign out everywhere" onCancel={() => setDialog(false)} onConfirm={() => void signOutEverywhere()}>
          <p>Ends all your sessions, including this session. Your tokens stay valid until you revoke them.</p>
        </Confirm>
      )}
      <Table label="Sessions" titles={["Session", "Signed in", "Last used", "Expires"]}>
        {data.sessions.map((session) => (
          <tr key={session.id}>
            <td>{session.name}</td>
            <td>
              <Age at={session.insertedAt} />
            </td>
            <td>
              <Age at={session.lastUsedAt} />
            </td>
            <td>{session.expiresAt?.slice(0, 16).replace("T", " ")}</td>
          </tr>
        ))}
      </Table>
    </>
  );
}
