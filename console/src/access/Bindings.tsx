import { useState, type SubmitEvent } from "react";
import { useMutation, useQuery } from "urql";
import { refresh } from "../api/client";
import { BindingsDocument, GiveRoleDocument, TakeRoleDocument, type BindingsQuery } from "../api/generated";
import { exactly } from "../text/time";
import { Confirm } from "../ui/Confirm";
import { textOf } from "../ui/form";
import { FormBar } from "../ui/FormBar";
import { Problem } from "../ui/Problem";
import { Skeleton } from "../ui/Skeleton";
import { Table } from "../ui/Table";
import { NoPlace } from "./NoPlace";
import { PLACES, scopeOf } from "./scopes";

type Binding = BindingsQuery["roleBindings"][number];

const holderOf = ({ user, group }: Binding): string => user?.email ?? (group === null ? "nobody any more" : `group ${group.name}`);

function Give({ roles, onDone }: { readonly roles: readonly string[]; readonly onDone: () => void }) {
  const [{ error, fetching }, give] = useMutation(GiveRoleDocument);
  const [lost, lose] = useState("");
  const submit = async (event: SubmitEvent<HTMLFormElement>) => {
    event.preventDefault();
    const form = new FormData(event.currentTarget);
    const kind = textOf(form, "kind") === "group" ? "group" : "user";
    const scope = await scopeOf(textOf(form, "scope"));
    lose(scope === null ? textOf(form, "scope") : "");
    if (scope === null) return;
    const attributes = { role: textOf(form, "role"), scope, reason: textOf(form, "reason"), [kind]: textOf(form, "who") };
    const result = await give({ attributes });
    if (result.error !== undefined) return;
    refresh();
    onDone();
  };
  return (
    <form className="form card" onSubmit={(event) => void submit(event)}>
      <h2>Give a role</h2>
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
          To
          <select name="kind">
            <option value="user">a person or a service account, by e-mail</option>
            <option value="group">a group, by name</option>
          </select>
        </label>
      </div>
      <div className="two">
        <label>
          Who
          <input name="who" required maxLength={255} />
        </label>
        <label>
          Where <small>{PLACES}</small>
          <input name="scope" required maxLength={1000} defaultValue="everywhere" />
        </label>
      </div>
      <label>
        Why
        <input name="reason" maxLength={1000} />
      </label>
      <FormBar action="Give it" busy={fetching} error={error} onCancel={onDone}>
        <NoPlace named={lost} />
      </FormBar>
    </form>
  );
}

/** Who has which role, where, given by whom; as far as one may see. */
export function Bindings({ roles }: { readonly roles: readonly string[] }) {
  const [{ data, error }] = useQuery({ query: BindingsDocument });
  const [taken, take] = useMutation(TakeRoleDocument);
  const [isGiving, give] = useState(false);
  const [leaving, leave] = useState<Binding | null>(null);
  if (error !== undefined && data == null) return <Problem error={error} />;
  if (data == null) return <Skeleton lines={4} />;
  const end = async () => {
    if (leaving === null) return;
    leave(null);
    const result = await take({ id: leaving.id });
    if (result.error === undefined) refresh();
  };
  return (
    <>
      <div className="bar">
        <h2>Who has which</h2>
        <span className="fill" />
        <button type="button" onClick={() => give(true)}>
          Give a role
        </button>
      </div>
      {isGiving && <Give roles={roles} onDone={() => give(false)} />}
      {taken.error !== undefined && <Problem error={taken.error} />}
      {data.roleBindings.length === 0 ? (
        <p className="quiet">You may see no role of anybody else.</p>
      ) : (
        <Table label="Roles given" titles={["Who", "Role", "Where", "Given by", "Why", "Until", ""]}>
          {data.roleBindings.map((one) => (
            <tr key={one.id}>
              <td>{holderOf(one)}</td>
              <td>{one.role.name}</td>
              <td>{one.place}</td>
              <td>{one.givenBy}</td>
              <td className="wide">{one.reason}</td>
              <td>{one.expiresAt === null ? "" : exactly(one.expiresAt)}</td>
              <td>
                <button type="button" onClick={() => leave(one)}>
                  Take it back…
                </button>
              </td>
            </tr>
          ))}
        </Table>
      )}
      {leaving !== null && (
        <Confirm title={`Take ${leaving.role.name} from ${holderOf(leaving)}?`} action="Take it back" onCancel={() => leave(null)} onConfirm={() => void end()}>
          <p>In {leaving.place}. What was opened by it ends within seconds.</p>
        </Confirm>
      )}
    </>
  );
}
