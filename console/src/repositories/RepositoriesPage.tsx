import { useMemo, useState } from "react";
import { useClient, useMutation, type Client } from "urql";
import { Link } from "wouter";
import { refresh } from "../api/client";
import { DeleteRepositoryDocument, RepositoriesDocument, SyncRepositoryDocument, type RepositoryRowFragment } from "../api/generated";
import { BulkButtons } from "../bulk/BulkButtons";
import type { Operation } from "../bulk/operation";
import { refusalOf } from "../bulk/refusal";
import { List, type Column } from "../lists/List";
import { AsYaml } from "../manage/AsYaml";
import { commandLine } from "../manage/values";
import { exactly } from "../text/time";
import { safeUrl } from "../text/links";
import { Age } from "../ui/Age";
import { Confirm } from "../ui/Confirm";
import { Empty } from "../ui/Empty";
import { QueryField } from "../lists/QueryField";
import { LABEL_CONDITIONS, useListFilter } from "../lists/useListFilter";
import { Problem } from "../ui/Problem";
import { STATES } from "../ui/states";
import { Status } from "../ui/Status";
import { toast } from "../ui/toast";
import { useParam } from "../ui/useParam";
import { RepositoryCheck } from "./RepositoryCheck";
import { RepositoryForm } from "./RepositoryForm";

const FOLLOW = 3_000;

type Repository = RepositoryRowFragment;
type RowProps = { readonly repository: Repository; readonly onEdit: () => void; readonly onDelete: () => void };

function RowActions({ repository, onEdit, onDelete }: RowProps) {
  const [{ error, fetching }, sync] = useMutation(SyncRepositoryDocument);
  return (
    <>
      <button type="button" disabled={fetching} onClick={() => void sync({ id: repository.id }).then((result) => result.error === undefined && toast("Fetch started"))}>
        Fetch now
      </button>{" "}
      <button type="button" onClick={onEdit}>
        Edit…
      </button>{" "}
      <button type="button" onClick={onDelete}>
        Remove…
      </button>{" "}
      <AsYaml kind="GitRepository" name={repository.url} />
      {error !== undefined && <Problem error={error} />}
    </>
  );
}

function Address({ url: text }: Repository) {
  const url = safeUrl(text);
  if (url === null) return text;
  return (
    <a href={url} target="_blank" rel="noreferrer noopener">
      {text}
    </a>
  );
}

const stateOf = ({ health }: Repository) => (health === null ? STATES.pending : health === "PULLABLE" ? STATES.ready : STATES.failed);

const COLUMNS: readonly Column<Repository>[] = [
  { id: "url", title: "URL", className: "wide", sort: ({ url }) => url, cell: (repository) => <Address {...repository} /> },
  { id: "state", title: "State", sort: (repository) => stateOf(repository).label, cell: (repository) => <Status state={stateOf(repository)} /> },
  {
    id: "commits",
    title: "Newest commits",
    className: "wide",
    cell: ({ error, commits }) =>
      error ??
      commits.slice(0, 3).map(({ ref, sha, subject }) => (
        <div key={ref}>
          <code>{/^[0-9a-f]{40}$/.test(ref) ? "commit" : ref}</code> <code className="quiet">{sha.slice(0, 8)}</code> {subject}
        </div>
      )),
  },
  { id: "authentication", title: "Authentication", sort: ({ signIn }) => signIn, cell: ({ signIn }) => signIn?.toLowerCase() ?? "none" },
  { id: "fetched", title: "Last fetch", sort: ({ pulledAt, polledAt }) => pulledAt ?? polledAt, cell: ({ pulledAt, polledAt }) => <Age at={pulledAt ?? polledAt} /> },
];

const idOf = ({ id }: Repository): string => id;

/** Operation that fetches repositories now. */
const fetchRepositories = (client: Client): Operation<Repository, null> => ({
  title: "Fetch repositories",
  done: "fetched",
  noun: "repository",
  consequence: "The control plane fetches the repositories now, instead of at their next interval.",
  key: idOf,
  name: ({ url }) => url,
  plan: async ({ id, pulledAt }) => {
    const refusal = await refusalOf(client, { verb: "WRITE", kind: "REPOSITORY" }, id);
    if (refusal !== null) return refusal;
    return { kind: "ready", planned: null, changes: [{ field: "last fetch", before: pulledAt === null ? null : exactly(pulledAt), after: "now" }] };
  },
  run: async (_, { id }) => {
    const { error } = await client.mutation(SyncRepositoryDocument, { id }).toPromise();
    if (error !== undefined) throw error;
    return null;
  },
  commands: (repositories) => repositories.map(({ url }) => commandLine(["repos", "sync", url])),
  yaml: () => "",
});

/** Git repositories: fetch state and newest commits. */
export function RepositoriesPage() {
  const { filter, problems, isFiltered } = useListFilter();
  const [isNew, setNew] = useParam("new");
  const [removed, remove] = useMutation(DeleteRepositoryDocument);
  const [chosen, choose] = useState<RepositoryRowFragment | null>(null);
  const [edited, edit] = useState<RepositoryRowFragment | null>(null);
  const [checked, check] = useState<string | null>(null);
  const client = useClient();
  const operations = useMemo(() => [fetchRepositories(client)], [client]);
  const columns = useMemo(() => [...COLUMNS, { id: "actions", title: "", className: "wide", cell: (repository: Repository) => <RowActions repository={repository} onEdit={() => edit(repository)} onDelete={() => choose(repository)} /> }], []);
  const done = (saved?: string) => {
    setNew("");
    edit(null);
    check(saved ?? null);
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
        <h1>Repositories</h1>
        <QueryField label="Filter repositories" conditions={LABEL_CONDITIONS} problems={problems} />
        <span className="fill" />
        <Link className="button" href="/repositories/charts">
          Helm repositories
        </Link>
        <Link className="button" href="/repositories/artifacts">
          OCI repositories
        </Link>
        <button type="button" className="primary" onClick={() => setNew("1")}>
          Connect repository
        </button>
      </div>
      {isNew !== "" && <RepositoryForm onDone={done} />}
      {edited !== null && <RepositoryForm key={edited.id} repository={edited} onDone={done} />}
      {checked !== null && <RepositoryCheck key={checked} id={checked} onEdit={edit} onClose={() => check(null)} />}
      {removed.error !== undefined && <Problem error={removed.error} />}
      <List
        label="Repositories"
        counted={["repository", "repositories"]}
        columns={columns}
        query={RepositoriesDocument}
        variables={filter}
        pick={(data) => data.gitRepositories}
        id={idOf}
        name={({ url }) => url}
        bulk={(repositories) => <BulkButtons operations={operations} targets={repositories} />}
        follow={FOLLOW}
        problems={problems}
        empty={
          isNew === "" && (
            <Empty title={isFiltered ? "No matching repositories" : "No repositories yet"}>
              A service renders a folder of a repository. <Link href="/repositories?new=1">Connect a repository</Link>: public, or with a token or an SSH key.
            </Empty>
          )
        }
      />
      {chosen !== null && (
        <Confirm title="Remove this repository?" action="Remove repository" onConfirm={() => void end()} onCancel={() => choose(null)}>
          <p>{chosen.url}</p>
          <p className="quiet">A repository that a service uses cannot be removed.</p>
        </Confirm>
      )}
    </div>
  );
}
