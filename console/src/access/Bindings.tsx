import { useState, type SubmitEvent } from "react";
import { useMutation, useQuery } from "urql";
import { refresh } from "../api/client";
import { BindingsDocument, GrantRoleDocument, RevokeRoleDocument, type BindingsQuery } from "../api/generated";
import { exactly } from "../text/time";
import { Clip } from "../ui/Clip";
import { Confirm } from "../ui/Confirm";
import { textOf } from "../ui/form";
import { FilterField } from "../ui/FilterField";
import { FormBar } from "../ui/FormBar";
import { AsYaml } from "../manage/AsYaml";
import { Problem } from "../ui/Problem";
import { Skeleton } from "../ui/Skeleton";
import { Table } from "../ui/Table";
import { useParam } from "../ui/useParam";
import { UnknownScope } from "./UnknownScope";
import { SCOPE_HINT, scopeId } from "./scopes";

type Binding = BindingsQuery["roleBindings"][number];

const holderOf = ({ user, group }: Binding): string => user?.email ?? (group === null ? "deleted user" : `group ${group.name}`);

const placeOf = ({ place, clusterTags }: Binding): string => (clusterTags === "" ? place : `clusters with ${clusterTags} in ${place}`);

function GrantForm({ roles, onDone }: { readonly roles: readonly string[]; readonly onDone: () => void }) {
  const [{ error, fetching }, give] = useMutation(GrantRoleDocument);
  const [unknown, setUnknown] = useState("");
  const submit = async (event: SubmitEvent<HTMLFormElement>) => {
    event.preventDefault();
    const form = new FormData(event.currentTarget);
    const kind = textOf(form, "kind") === "group" ? "group" : "user";
    const scope = await scopeId(textOf(form, "scope"));
    setUnknown(scope === null ? textOf(form, "scope") : "");
    if (scope === null) return;
    const attributes = { role: textOf(form, "role"), scope, clusterTags: textOf(form, "clusterTags"), reason: textOf(form, "reason"), [kind]: textOf(form, "who") };
    const result = await give({ attributes });
    if (result.error !== undefined) return;
    refresh();
    onDone();
  };
  return (
    <form className="form card" onSubmit={(event) => void submit(event)}>
      <h2>Grant role</h2>
      <div className="two">
        <label>
          Role
          <select name="role">
            {roles.map((name) => (
              <option key={name}>{name}</option>
            ))}
          </select>
        </label>
        <label>
          Subject type
          <select name="kind">
            <option value="user">user or service account (e-mail)</option>
            <option value="group">group (name)</option>
          </select>
        </label>
      </div>
      <div className="two">
        <label>
          Subject
          <input name="who" required maxLength={255} />
        </label>
        <label>
          Scope <small>{SCOPE_HINT}</small>
          <input name="scope" required maxLength={1000} defaultValue="everywhere" />
        </label>
      </div>
      <div className="two">
        <label>
          Only in clusters with these tags <small>such as env=dev or team in (a,b)</small>
          <input name="clusterTags" maxLength={2000} />
        </label>
        <label>
          Reason
          <input name="reason" maxLength={1000} />
        </label>
      </div>
      <FormBar action="Grant role" busy={fetching} error={error} onCancel={onDone}>
        <UnknownScope named={unknown} />
      </FormBar>
    </form>
  );
}

/** Role bindings that the user may read. */
export function Bindings({ roles }: { readonly roles: readonly string[] }) {
  const [{ data, error }] = useQuery({ query: BindingsDocument });
  const [q] = useParam("q");
  const [revoked, revoke] = useMutation(RevokeRoleDocument);
  const [isGranting, grant] = useState(false);
  const [chosen, choose] = useState<Binding | null>(null);
  if (error !== undefined && data == null) return <Problem error={error} />;
  if (data == null) return <Skeleton lines={4} />;
  const shown = data.roleBindings.filter((binding) => holderOf(binding).toLowerCase().includes(q.toLowerCase()));
  const end = async () => {
    if (chosen === null) return;
    choose(null);
    const result = await revoke({ id: chosen.id });
    if (result.error === undefined) refresh();
  };
  return (
    <>
      <div className="bar">
        <h2>Role bindings</h2>
        <FilterField label="Filter by subject" />
        <span className="fill" />
        <button type="button" onClick={() => grant(true)}>
          Grant role
        </button>
      </div>
      {isGranting && <GrantForm roles={roles} onDone={() => grant(false)} />}
      {revoked.error !== undefined && <Problem error={revoked.error} />}
      {shown.length === 0 ? (
        <p className="quiet">{q === "" ? "No role bindings that you may read." : `No role bindings of ${q} that you may read.`}</p>
      ) : (
        <Table label="Role bindings" titles={["Subject", "Role", "Scope", "Granted by", "Reason", "Expires", ""]}>
          {shown.map((binding) => (
            <tr key={binding.id}>
              <td>
                <Clip>{holderOf(binding)}</Clip>
              </td>
              <td>
                <Clip>{binding.role.name}</Clip>
              </td>
              <td>
                <Clip>{placeOf(binding)}</Clip>
              </td>
              <td>
                <Clip>{binding.givenBy}</Clip>
              </td>
              <td className="wide">{binding.reason}</td>
              <td>{binding.expiresAt === null ? "" : `${binding.expired ? "expired " : ""}${exactly(binding.expiresAt)}`}</td>
              <td>
                <button type="button" onClick={() => choose(binding)}>
                  Revoke…
                </button>{" "}
                {binding.name !== null && <AsYaml kind="RoleBinding" name={binding.name} />}
              </td>
            </tr>
          ))}
        </Table>
      )}
      {chosen !== null && (
        <Confirm title={`Revoke ${chosen.role.name} from ${holderOf(chosen)}?`} action="Revoke role" onCancel={() => choose(null)} onConfirm={() => void end()}>
          <p>Scope: {placeOf(chosen)}. Sessions that depend on this role end within seconds.</p>
        </Confirm>
      )}
    </>
  );
}
