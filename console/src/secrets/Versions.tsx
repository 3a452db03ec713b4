import { useState } from "react";
import { useMutation } from "urql";
import { refresh } from "../api/client";
import { RevokeVersionDocument, type SecretDetailQuery, type SecretRowFragment } from "../api/generated";
import { Age } from "../ui/Age";
import { Confirm } from "../ui/Confirm";
import { Problem } from "../ui/Problem";
import { Status } from "../ui/Status";
import { Table } from "../ui/Table";

type Props = { readonly secret: SecretRowFragment; readonly versions: SecretDetailQuery["secretVersions"]; readonly used: ReadonlySet<number> };

/** Every version that a secret has had; those that nobody uses can be destroyed. */
export function Versions({ secret, versions, used }: Props) {
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
