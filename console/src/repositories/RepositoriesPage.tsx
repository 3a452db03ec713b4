import { useState } from "react";
import { useMutation } from "urql";
import { Link } from "wouter";
import { refresh } from "../api/client";
import { DeleteRepositoryDocument, RepositoriesDocument, SyncRepositoryDocument, type RepositoryRowFragment } from "../api/generated";
import { safeUrl } from "../text/links";
import { Age } from "../ui/Age";
import { Confirm } from "../ui/Confirm";
import { Empty } from "../ui/Empty";
import { FilterField } from "../ui/FilterField";
import { PagedTable } from "../ui/PagedTable";
import { Problem } from "../ui/Problem";
import { STATES } from "../ui/states";
import { Status } from "../ui/Status";
import { toast } from "../ui/toast";
import { useParam } from "../ui/useParam";
import { RepositoryCheck } from "./RepositoryCheck";
import { RepositoryForm } from "./RepositoryForm";

const FOLLOW = 3_000;

type RowProps = { readonly repository: RepositoryRowFragment; readonly onEdit: () => void; readonly onDelete: () => void };

function Row({ repository, onEdit, onDelete }: RowProps) {
  const [{ error, fetching }, sync] = useMutation(SyncRepositoryDocument);
  const url = safeUrl(repository.url);
  return (
    <tr>
      <td>
        {url === null ? (
          repository.url
        ) : (
          <a href={url} target="_blank" rel="noreferrer noopener">
            {repository.url}
          </a>
        )}
      </td>
      <td>
        <Status state={repository.health === null ? STATES.pending : repository.health === "PULLABLE" ? STATES.ready : STATES.failed} />
      </td>
      <td className="wide">
        {repository.error ??
          repository.commits.slice(0, 3).map(({ ref, sha, subject }) => (
            <div key={ref}>
              <code>{/^[0-9a-f]{40}$/.test(ref) ? "commit" : ref}</code> <code className="quiet">{sha.slice(0, 8)}</code> {subject}
            </div>
          ))}
      </td>
      <td>{repository.signIn?.toLowerCase() ?? "none"}</td>
      <td>
        <Age at={repository.pulledAt ?? repository.polledAt} />
      </td>
      <td>
        <button type="button" disabled={fetching} onClick={() => void sync({ id: repository.id }).then((result) => result.error === undefined && toast("Fetch started"))}>
          Fetch now
        </button>{" "}
        <button type="button" onClick={onEdit}>
          Edit…
        </button>{" "}
        <button type="button" onClick={onDelete}>
          Remove…
        </button>
        {error !== undefined && <Problem error={error} />}
      </td>
    </tr>
  );
}

/** Git repositories: fetch state and newest commits. */
export function RepositoriesPage() {
  const [q] = useParam("q");
  const [isNew, setNew] = useParam("new");
  const [removed, remove] = useMutation(DeleteRepositoryDocument);
  const [chosen, choose] = useState<RepositoryRowFragment | null>(null);
  const [edited, edit] = useState<RepositoryRowFragment | null>(null);
  const [checked, check] = useState<string | null>(null);
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
        <FilterField label="Filter repositories" />
        <span className="fill" />
        <Link className="button" href="/repositories/charts">
          Helm and OCI repositories
        </Link>
        <button type="button" className="primary" onClick={() => setNew("1")}>
          Connect repository
        </button>
      </div>
      {isNew !== "" && <RepositoryForm onDone={done} />}
      {edited !== null && <RepositoryForm key={edited.id} repository={edited} onDone={done} />}
      {checked !== null && <RepositoryCheck key={checked} id={checked} onEdit={edit} onClose={() => check(null)} />}
      {removed.error !== undefined && <Problem error={removed.error} />}
      <PagedTable
        label="Repositories"
        titles={["URL", "State", "Newest commits", "Authentication", "Last fetch", ""]}
        query={RepositoriesDocument}
        variables={{ q: q || null }}
        pick={(data) => data.gitRepositories}
        row={(repository) => <Row key={repository.id} repository={repository} onEdit={() => edit(repository)} onDelete={() => choose(repository)} />}
        follow={FOLLOW}
        empty={
          isNew === "" && (
            <Empty title={q === "" ? "No repositories yet" : "No matching repositories"}>
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
