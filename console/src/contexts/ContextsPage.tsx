import { useState, type SubmitEvent } from "react";
import { useMutation, useQuery } from "urql";
import { ContextsDocument, DeleteContextDocument, SaveContextDocument, type ContextsQuery } from "../api/generated";
import { Code } from "../ui/Code";
import { Confirm } from "../ui/Confirm";
import { Empty } from "../ui/Empty";
import { FilterField } from "../ui/FilterField";
import { textOf } from "../ui/form";
import { Problem } from "../ui/Problem";
import { Skeleton } from "../ui/Skeleton";
import { Table } from "../ui/Table";
import { toast } from "../ui/toast";
import { useParam } from "../ui/useParam";
import { toYaml } from "../text/yaml";
import { judged } from "../text/judge";

type Context = ContextsQuery["serviceContexts"]["edges"][number]["node"];

function Edit({ context, onDone }: { readonly context: Context | null; readonly onDone: () => void }) {
  const [{ error, fetching }, save] = useMutation(SaveContextDocument);
  const [text, setText] = useState(context === null ? "region: eu-west\n" : toYaml(context.configuration));
  const { value, problem } = judged(text);
  const submit = async (event: SubmitEvent<HTMLFormElement>) => {
    event.preventDefault();
    const form = new FormData(event.currentTarget);
    const secret = textOf(form, "secret");
    const secrets = secret === "" ? null : [{ name: secret, value: textOf(form, "value") }];
    const result = await save({ name: context?.name ?? textOf(form, "name"), attributes: { configuration: JSON.stringify(value), secrets } });
    if (result.error !== undefined) return;
    toast("The context is saved; services that use it are rendered again.");
    onDone();
  };
  return (
    <form className="form card" onSubmit={(event) => void submit(event)}>
      <h2>{context === null ? "New context" : context.name}</h2>
      {context === null && (
        <label>
          Name
          <input name="name" required maxLength={255} />
        </label>
      )}
      <Code text={text} label="Values, as YAML" onChange={setText} />
      {problem !== "" && <p className="status bad">{problem}</p>}
      <div className="two">
        <label>
          Set a secret <small>its name; empty for none</small>
          <input name="secret" autoComplete="off" />
        </label>
        <label>
          Its value <small>sealed; nobody sees it again</small>
          <input name="value" type="password" autoComplete="new-password" />
        </label>
      </div>
      {error !== undefined && <Problem error={error} />}
      <div className="bar">
        <button className="primary" disabled={fetching || problem !== ""}>
          Save
        </button>
        <button type="button" onClick={onDone}>
          Cancel
        </button>
      </div>
    </form>
  );
}

/** Named values that templates of many services read. */
export function ContextsPage() {
  const [q] = useParam("q");
  const [name, edit] = useParam("edit");
  const [{ data, error }, again] = useQuery({ query: ContextsDocument, variables: { q: q || null } });
  const [removed, remove] = useMutation(DeleteContextDocument);
  const [leaving, leave] = useState<Context | null>(null);
  const contexts = data?.serviceContexts.edges.map(({ node }) => node) ?? [];
  const done = () => {
    edit("");
    again({ requestPolicy: "network-only" });
  };
  const end = async () => {
    if (leaving === null) return;
    const result = await remove({ id: leaving.id });
    leave(null);
    if (result.error === undefined) again({ requestPolicy: "network-only" });
  };
  const edited = contexts.find((one) => one.name === name) ?? null;
  return (
    <>
      <div className="bar">
        <h1>Contexts</h1>
        <FilterField label="Filter contexts" />
        <span className="fill" />
        <button type="button" className="primary" onClick={() => edit("*")}>
          New context
        </button>
      </div>
      {error !== undefined && data == null && <Problem error={error} />}
      {removed.error !== undefined && <Problem error={removed.error} />}
      {data == null && error === undefined && <Skeleton lines={6} />}
      {name !== "" && (name === "*" || edited !== null) && <Edit key={name} context={edited} onDone={done} />}
      {data != null && contexts.length === 0 && name === "" && (
        <Empty title="No contexts yet">A context is a set of values under a name: templates of the services that are bound to it read them, secret ones sealed.</Empty>
      )}
      {contexts.length > 0 && (
        <Table label="Contexts" titles={["Context", "Values", "Project", ""]}>
          {contexts.map((one) => (
            <tr key={one.id}>
              <td>{one.name}</td>
              <td>
                <code>{Object.keys(one.configuration).join(", ")}</code>
              </td>
              <td>{one.project?.name ?? ""}</td>
              <td>
                <button type="button" onClick={() => edit(one.name)}>
                  Edit
                </button>{" "}
                <button type="button" onClick={() => leave(one)}>
                  Delete…
                </button>
              </td>
            </tr>
          ))}
        </Table>
      )}
      {leaving !== null && (
        <Confirm title={`Delete ${leaving.name}?`} action="Delete it" typed={leaving.name} onConfirm={() => void end()} onCancel={() => leave(null)}>
          <p className="quiet">It is refused while a service uses it.</p>
        </Confirm>
      )}
    </>
  );
}
