import { useState } from "react";
import { useMutation, useQuery } from "urql";
import { refresh } from "../api/client";
import { DeleteRoleDocument, RolesDocument, type RoleFullFragment } from "../api/generated";
import { AsYaml } from "../manage/AsYaml";
import { Confirm } from "../ui/Confirm";
import { Problem } from "../ui/Problem";
import { STATES } from "../ui/states";
import { Status } from "../ui/Status";
import { Skeleton } from "../ui/Skeleton";
import { Table } from "../ui/Table";
import { useParam } from "../ui/useParam";
import { Bindings } from "./Bindings";
import { RoleForm } from "./RoleForm";

const words = (names: readonly string[]): string => (names.length === 0 ? "all" : names.map((name) => name.toLowerCase()).join(", "));

type RowProps = { readonly role: RoleFullFragment; readonly onEdit: () => void; readonly onDelete: () => void };

function Row({ role, onEdit, onDelete }: RowProps) {
  const { name, description, builtIn, rules, kubernetes } = role;
  return (
    <tr>
      <td>
        <strong>{name}</strong> <span className="quiet">{builtIn ? "built-in" : description}</span>
      </td>
      <td className="wide">
        {rules.map(({ verbs, kinds }, index) => (
          <div key={index}>
            {words(verbs)} <span className="quiet">on {words(kinds)}</span>
          </div>
        ))}
      </td>
      <td>
        {kubernetes.groups.join(", ")} {kubernetes.record && <Status state={STATES.recorded} />}
      </td>
      <td>
        {!builtIn && (
          <>
            <button type="button" onClick={onEdit}>
              Edit
            </button>{" "}
            <button type="button" onClick={onDelete}>
              Delete…
            </button>{" "}
            <AsYaml kind="Role" name={name} />
          </>
        )}
      </td>
    </tr>
  );
}

/** Roles with their permissions, and role bindings. */
export function Roles() {
  const [{ data, error }] = useQuery({ query: RolesDocument });
  const [removed, remove] = useMutation(DeleteRoleDocument);
  const [edited, edit] = useParam("role");
  const [chosen, choose] = useState<RoleFullFragment | null>(null);
  if (error !== undefined && data == null) return <Problem error={error} />;
  if (data == null) return <Skeleton lines={4} />;
  const role = data.roles.find(({ name }) => name === edited) ?? null;
  const end = async () => {
    if (chosen === null) return;
    choose(null);
    const result = await remove({ id: chosen.id });
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
      <Table label="Roles" titles={["Role", "Permissions", "Kubernetes groups", ""]}>
        {data.roles.map((each) => (
          <Row key={each.id} role={each} onEdit={() => edit(each.name)} onDelete={() => choose(each)} />
        ))}
      </Table>
      {chosen !== null && (
        <Confirm title={`Delete role ${chosen.name}?`} action="Delete role" typed={chosen.name} onCancel={() => choose(null)} onConfirm={() => void end()}>
          <p>Its subjects lose these permissions immediately, and their sessions that depend on them end.</p>
        </Confirm>
      )}
      <Bindings roles={data.roles.map(({ name }) => name)} />
    </div>
  );
}
