import { useState } from "react";
import { useMutation } from "urql";
import { refresh } from "../api/client";
import { RevokeVersionDocument, type SecretDetailQuery, type SecretRowFragment } from "../api/generated";
import { Age } from "../ui/Age";
import { Confirm } from "../ui/Confirm";
import { Problem } from "../ui/Problem";
import { STATES } from "../ui/states";
import { Status } from "../ui/Status";
import { Table } from "../ui/Table";

type Props = { readonly secret: SecretRowFragment; readonly versions: SecretDetailQuery["secretVersions"]; readonly used: ReadonlySet<number> };

/** All versions of a secret; unused ones can be destroyed. */
export function Versions({ secret, versions, used }: Props) {
  const [{ error }, revoke] = useMutation(RevokeVersionDocument);
  const [chosen, choose] = useState<number | null>(null);
  const end = async (number: number) => {
    choose(null);
    const result = await revoke({ id: secret.id, number });
    if (result.error === undefined) refresh();
  };
  return (
    <>
      {error !== undefined && <Problem error={error} />}
      <Table label="Versions" titles={["Version", "Created", "Created by", "State", ""]}>
        {versions.map(({ id, number, insertedAt, actor, revokedAt }) => (
          <tr key={id}>
            <td>{number}</td>
            <td>
              <Age at={insertedAt} />
            </td>
            <td>{actor}</td>
            <td>
              <Status state={revokedAt !== null ? STATES.destroyed : number === secret.currentVersion ? STATES.current : STATES.retained} />
            </td>
            <td>
              {revokedAt === null && number !== secret.currentVersion && !used.has(number) && (
                <button type="button" onClick={() => choose(number)}>
                  Destroy…
                </button>
              )}
            </td>
          </tr>
        ))}
      </Table>
      {chosen !== null && (
        <Confirm title={`Destroy version ${chosen} of ${secret.name}?`} action="Destroy version" typed={secret.name} onCancel={() => choose(null)} onConfirm={() => void end(chosen)}>
          <p>This cannot be undone.</p>
        </Confirm>
      )}
    </>
  );
}
