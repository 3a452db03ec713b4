import { useState } from "react";
import { useMutation, useQuery } from "urql";
import { refresh } from "../api/client";
import { DeleteRoleDocument, RolesDocument, type RoleFullFragment } from "../api/generated";
import { Confirm } from "../ui/Confirm";
import { Problem } from "../ui/Problem";
import { Skeleton } from "../ui/Skeleton";
import { Table } from "../ui/Table";
import { useParam } from "../ui/useParam";
import { Bindings } from "./Bindings";
import { RoleForm } from "./RoleForm";

const words = (names: readonly string[]): string => (names.length === 0 ? "everything" : names.map((name) => name.toLowerCase()).join(", "));

type RowProps = { readonly role: RoleFullFragment; readonly onEdit: () => void; readonly onDelete: () => void };

function Row({ role, onEdit, onDelete }: RowProps) {
  const { name, description, builtIn, rules, kubernetes } = role;
  return (
    <tr>
      <td>
        <strong>{name}</strong> <span className="quiet">{builtIn ? "built in" : description}</span>
      </td>
      <td className="wide">
        {rules.map(({ verbs, kinds }, index) => (
          <div key={index}>
            {words(verbs)} <span className="quiet">of {words(kinds)}</span>
          </div>
        ))}
      </td>
      <td>
        {kubernetes.groups.join(", ")} {kubernetes.record && <span className="status warn">recorded</span>}
      </td>
      <td>
        {!builtIn && (
          <>
            <button type="button" onClick={onEdit}>
              Edit
            </button>{" "}
            <button type="button" onClick={onDelete}>
              Delete…
            </button>
          </>
        )}
      </td>
    </tr>
  );
}

/** What each role lets its holders do, here and inside clusters; and who has which, where. */
export function Roles() {
  const [{ data, error }] = useQuery({ query: RolesDocument });
  const [removed, remove] = useMutation(DeleteRoleDocument);
  const [edited, edit] = useParam("role");
  const [leaving, leave] = useState<RoleFullFragment | null>(null);
  if (error !== undefined && data == null) return <Problem error={error} />;
  if (data == null) return <Skeleton lines={4} />;
  const role = data.roles.find(({ name }) => name === edited) ?? null;
  const end = async () => {
    if (leaving === null) return;
    leave(null);
    const result = await remove({ id: leaving.id });
    if (result.error === undefined) refresh();
  };
  return (
    <div className="stack">
      {edited === "" ? (
        <div>
          <button type="button" className="primary" onClick={() => edit("*")}>
            New role
          </button>
        </div>
      ) : (
        <RoleForm key={edited} role={role} onDone={() => edit("")} />
      )}
      {removed.error !== undefined && <Problem error={removed.error} />}
      <Table label="Roles" titles={["Role", "May", "In clusters", ""]}>
        {data.roles.map((one) => (
          <Row key={one.id} role={one} onEdit={() => edit(one.name)} onDelete={() => leave(one)} />
        ))}
      </Table>
      {leaving !== null && (
        <Confirm title={`Delete the role ${leaving.name}?`} action="Delete it" typed={leaving.name} onCancel={() => leave(null)} onConfirm={() => void end()}>
          <p>Who has it loses its rights at once, and what they opened by them ends.</p>
        </Confirm>
      )}
      <Bindings roles={data.roles.map(({ name }) => name)} />
    </div>
  );
}
