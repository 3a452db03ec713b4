import { useMemo, useState, type SubmitEvent } from "react";
import { useMutation, useQuery } from "urql";
import { refresh } from "../api/client";
import { ContextDocument, ContextsDocument, DeleteContextDocument, SaveContextDocument, type ContextsQuery } from "../api/generated";
import { AsYaml } from "../manage/AsYaml";
import { Code } from "../ui/Code";
import { Confirm } from "../ui/Confirm";
import { Empty } from "../ui/Empty";
import { List, type Column } from "../lists/List";
import { QueryField } from "../lists/QueryField";
import { LABEL_CONDITIONS, useListFilter } from "../lists/useListFilter";
import { textOf } from "../ui/form";
import { FormBar } from "../ui/FormBar";
import { Problem } from "../ui/Problem";
import { Skeleton } from "../ui/Skeleton";
import { toast } from "../ui/toast";
import { useParam } from "../ui/useParam";
import { toYaml } from "../text/yaml";
import { parseMapping } from "../text/parseMapping";
import { Overrides } from "./Overrides";
import { secretsOf } from "./secrets";

type Context = ContextsQuery["serviceContexts"]["edges"][number]["node"];

function Edit({ context, onDone }: { readonly context: Context | null; readonly onDone: () => void }) {
  const [{ error, fetching }, save] = useMutation(SaveContextDocument);
  const [text, setText] = useState(context === null ? "region: eu-west\n" : toYaml(context.configuration));
  const [secrets, setSecrets] = useState("");
  const { value, problem } = parseMapping(text);
  const hidden = secretsOf(secrets);
  const submit = async (event: SubmitEvent<HTMLFormElement>) => {
    event.preventDefault();
    const form = new FormData(event.currentTarget);
    const result = await save({ name: context?.name ?? textOf(form, "name"), attributes: { configuration: JSON.stringify(value), secrets: hidden.secrets === null ? null : [...hidden.secrets] } });
    if (result.error !== undefined) return;
    toast("Context saved. Services that use it are rendered again.");
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
      <Code text={text} label="Values as YAML" onChange={setText} />
      <label>
        Secrets <small>{context !== null && context.secretsVersion > 0 ? "YAML; replaces all current secrets; empty: keep them. Stored encrypted; cannot be viewed again" : "YAML, one `name: text` per line. Stored encrypted; cannot be viewed again"}</small>
        <textarea className="masked" rows={3} autoComplete="off" spellCheck={false} value={secrets} onChange={(event) => setSecrets(event.target.value)} />
      </label>
      <FormBar action="Save" busy={fetching} complaints={[problem, hidden.problem].filter((complaint) => complaint !== "")} error={error} onCancel={onDone} />
    </form>
  );
}

const COLUMNS: readonly Column<Context>[] = [
  { id: "context", title: "Context", sort: ({ name }) => name, cell: ({ name }) => name },
  { id: "values", title: "Values", className: "wide", cell: ({ configuration }) => <code>{Object.keys(configuration).join(", ")}</code> },
  { id: "project", title: "Project", sort: ({ project }) => project?.name, cell: ({ project }) => project?.name },
];

const idOf = ({ id }: Context): string => id;

function RowActions({ name, onEdit, onDelete }: { readonly name: string; readonly onEdit: () => void; readonly onDelete: () => void }) {
  return (
    <>
      <button type="button" onClick={onEdit}>
        Edit
      </button>{" "}
      <button type="button" onClick={onDelete}>
        Delete…
      </button>{" "}
      <AsYaml kind="Context" name={name} />
    </>
  );
}

/** Form of the context in the URL; `*` creates a new one. */
function Edited({ name, onDone }: { readonly name: string; readonly onDone: () => void }) {
  const isNew = name === "*";
  const [{ data, error }] = useQuery({ query: ContextDocument, variables: { name }, pause: isNew });
  if (error !== undefined && data == null) return <Problem error={error} />;
  if (isNew) return <Edit context={null} onDone={onDone} />;
  if (data == null) return <Skeleton lines={6} />;
  if (data.serviceContext === null) return <p className="quiet">Context {name} not found.</p>;
  return (
    <div className="stack">
      <Edit context={data.serviceContext} onDone={onDone} />
      <Overrides contextId={data.serviceContext.id} />
    </div>
  );
}

/** Contexts: named sets of values that templates of several services read. */
export function ContextsPage() {
  const { filter, problems, isFiltered } = useListFilter();
  const [name, edit] = useParam("edit");
  const [removed, remove] = useMutation(DeleteContextDocument);
  const [chosen, choose] = useState<Context | null>(null);
  const columns = useMemo(() => [...COLUMNS, { id: "actions", title: "", cell: (context: Context) => <RowActions name={context.name} onEdit={() => edit(context.name)} onDelete={() => choose(context)} /> }], [edit]);
  const done = () => {
    edit("");
    refresh();
  };
  const end = async () => {
    if (chosen === null) return;
    const result = await remove({ id: chosen.id });
    choose(null);
    if (result.error === undefined) refresh();
  };
  return (
    <div className="stack">
      <div className="bar">
        <h1>Contexts</h1>
        <QueryField label="Filter contexts" conditions={LABEL_CONDITIONS} problems={problems} />
        <span className="fill" />
        <button type="button" className="primary" onClick={() => edit("*")}>
          New context
        </button>
      </div>
      {removed.error !== undefined && <Problem error={removed.error} />}
      {name !== "" && <Edited key={name} name={name} onDone={done} />}
      <List
        label="Contexts"
        counted={["context", "contexts"]}
        problems={problems}
        columns={columns}
        query={ContextsDocument}
        variables={filter}
        pick={(data) => data.serviceContexts}
        id={idOf}
        name={({ name }) => name}
        empty={
          name === "" && (
            <Empty title={isFiltered ? "No matching contexts" : "No contexts yet"}>
              A context is a named set of values and secrets. Templates of the services bound to it can read them. Projects, groups and clusters can override single values.
            </Empty>
          )
        }
      />
      {chosen !== null && (
        <Confirm title={`Delete ${chosen.name}?`} action="Delete context" typed={chosen.name} onConfirm={() => void end()} onCancel={() => choose(null)}>
          <p className="quiet">A context that a service uses cannot be deleted.</p>
        </Confirm>
      )}
    </div>
  );
}
