import { useState, type SubmitEvent } from "react";
import { useMutation, useQuery } from "urql";
import { refresh } from "../api/client";
import { ContextDocument, ContextsDocument, DeleteContextDocument, SaveContextDocument, type ContextsQuery } from "../api/generated";
import { Code } from "../ui/Code";
import { Confirm } from "../ui/Confirm";
import { Empty } from "../ui/Empty";
import { FilterField } from "../ui/FilterField";
import { textOf } from "../ui/form";
import { FormBar } from "../ui/FormBar";
import { PagedTable } from "../ui/PagedTable";
import { Problem } from "../ui/Problem";
import { Skeleton } from "../ui/Skeleton";
import { toast } from "../ui/toast";
import { useParam } from "../ui/useParam";
import { toYaml } from "../text/yaml";
import { judged } from "../text/judge";
import { Overrides } from "./Overrides";
import { secretsOf } from "./secrets";

type Context = ContextsQuery["serviceContexts"]["edges"][number]["node"];

function Edit({ context, onDone }: { readonly context: Context | null; readonly onDone: () => void }) {
  const [{ error, fetching }, save] = useMutation(SaveContextDocument);
  const [text, setText] = useState(context === null ? "region: eu-west\n" : toYaml(context.configuration));
  const [secrets, setSecrets] = useState("");
  const { value, problem } = judged(text);
  const hidden = secretsOf(secrets);
  const submit = async (event: SubmitEvent<HTMLFormElement>) => {
    event.preventDefault();
    const form = new FormData(event.currentTarget);
    const result = await save({ name: context?.name ?? textOf(form, "name"), attributes: { configuration: JSON.stringify(value), secrets: hidden.secrets === null ? null : [...hidden.secrets] } });
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
      <label>
        Secrets <small>{context !== null && context.secretsVersion > 0 ? "as YAML; they replace all that it has, empty leaves them; sealed, nobody sees them again" : "as YAML: name and text, a line each; sealed, nobody sees them again"}</small>
        <textarea className="masked" rows={3} autoComplete="off" spellCheck={false} value={secrets} onChange={(event) => setSecrets(event.target.value)} />
      </label>
      <FormBar action="Save" busy={fetching} complaints={[problem, hidden.problem].filter((one) => one !== "")} error={error} onCancel={onDone} />
    </form>
  );
}

function Row({ context, onEdit, onDelete }: { readonly context: Context; readonly onEdit: () => void; readonly onDelete: () => void }) {
  return (
    <tr>
      <td>{context.name}</td>
      <td className="wide">
        <code>{Object.keys(context.configuration).join(", ")}</code>
      </td>
      <td>{context.project?.name ?? ""}</td>
      <td>
        <button type="button" onClick={onEdit}>
          Edit
        </button>{" "}
        <button type="button" onClick={onDelete}>
          Delete…
        </button>
      </td>
    </tr>
  );
}

/** The form of the context that the address names; `*` is a new one. */
function Edited({ name, onDone }: { readonly name: string; readonly onDone: () => void }) {
  const isNew = name === "*";
  const [{ data, error }] = useQuery({ query: ContextDocument, variables: { name }, pause: isNew });
  if (error !== undefined && data == null) return <Problem error={error} />;
  if (isNew) return <Edit context={null} onDone={onDone} />;
  if (data == null) return <Skeleton lines={6} />;
  if (data.serviceContext === null) return <p className="quiet">There is no context {name}.</p>;
  return (
    <div className="stack">
      <Edit context={data.serviceContext} onDone={onDone} />
      <Overrides contextId={data.serviceContext.id} />
    </div>
  );
}

/** Named values that templates of many services read. */
export function ContextsPage() {
  const [q] = useParam("q");
  const [name, edit] = useParam("edit");
  const [removed, remove] = useMutation(DeleteContextDocument);
  const [leaving, leave] = useState<Context | null>(null);
  const done = () => {
    edit("");
    refresh();
  };
  const end = async () => {
    if (leaving === null) return;
    const result = await remove({ id: leaving.id });
    leave(null);
    if (result.error === undefined) refresh();
  };
  return (
    <div className="stack">
      <div className="bar">
        <h1>Contexts</h1>
        <FilterField label="Filter contexts" />
        <span className="fill" />
        <button type="button" className="primary" onClick={() => edit("*")}>
          New context
        </button>
      </div>
      {removed.error !== undefined && <Problem error={removed.error} />}
      {name !== "" && <Edited key={name} name={name} onDone={done} />}
      <PagedTable
        label="Contexts"
        titles={["Context", "Values", "Project", ""]}
        query={ContextsDocument}
        variables={{ q: q || null }}
        pick={(data) => data.serviceContexts}
        row={(one) => <Row key={one.id} context={one} onEdit={() => edit(one.name)} onDelete={() => leave(one)} />}
        empty={
          name === "" && (
            <Empty title={q === "" ? "No contexts yet" : "No context is like that"}>
              A context is a set of values under a name: templates of the services that are bound to it read them, secret ones sealed. A project, a group or a cluster may have some of them otherwise.
            </Empty>
          )
        }
      />
      {leaving !== null && (
        <Confirm title={`Delete ${leaving.name}?`} action="Delete it" typed={leaving.name} onConfirm={() => void end()} onCancel={() => leave(null)}>
          <p className="quiet">It is refused while a service uses it.</p>
        </Confirm>
      )}
    </div>
  );
}
