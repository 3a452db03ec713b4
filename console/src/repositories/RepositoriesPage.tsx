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
import { Status } from "../ui/Status";
import { toast } from "../ui/toast";
import { useParam } from "../ui/useParam";
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
        {repository.health === "PULLABLE" ? <Status tone="ok">Read</Status> : <Status tone={repository.health === null ? "idle" : "bad"}>{repository.health === null ? "Not yet" : "Failed"}</Status>}
      </td>
      <td className="wide">
        {repository.error ??
          repository.commits.slice(0, 3).map(({ ref, sha, subject }) => (
            <div key={ref}>
              <code>{/^[0-9a-f]{40}$/.test(ref) ? "commit" : ref}</code> <code className="quiet">{sha.slice(0, 8)}</code> {subject}
            </div>
          ))}
      </td>
      <td>{repository.signIn?.toLowerCase() ?? "nobody"}</td>
      <td>
        <Age at={repository.pulledAt ?? repository.polledAt} />
      </td>
      <td>
        <button type="button" disabled={fetching} onClick={() => void sync({ id: repository.id }).then((result) => result.error === undefined && toast(repository.health === null ? "It is read once a service comes from it." : "It is looked at now."))}>
          Look now
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

/** Where services come from: whether each can be read, and what was read last. */
export function RepositoriesPage() {
  const [q] = useParam("q");
  const [isNew, setNew] = useParam("new");
  const [removed, remove] = useMutation(DeleteRepositoryDocument);
  const [leaving, leave] = useState<RepositoryRowFragment | null>(null);
  const [edited, edit] = useState<RepositoryRowFragment | null>(null);
  const done = () => {
    setNew("");
    edit(null);
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
        <h1>Repositories</h1>
        <FilterField label="Filter repositories" />
        <span className="fill" />
        <button type="button" className="primary" onClick={() => setNew("1")}>
          Connect a repository
        </button>
      </div>
      {isNew !== "" && <RepositoryForm onDone={done} />}
      {edited !== null && <RepositoryForm key={edited.id} repository={edited} onDone={done} />}
      {removed.error !== undefined && <Problem error={removed.error} />}
      <PagedTable
        label="Repositories"
        titles={["Address", "State", "Newest", "Signs in", "Read", ""]}
        query={RepositoriesDocument}
        variables={{ q: q || null }}
        pick={(data) => data.gitRepositories}
        row={(one) => <Row key={one.id} repository={one} onEdit={() => edit(one)} onDelete={() => leave(one)} />}
        follow={FOLLOW}
        empty={
          isNew === "" && (
            <Empty title={q === "" ? "No repositories yet" : "No repository is like that"}>
              Services are folders of repositories. <Link href="/repositories?new=1">Connect one</Link>, public or with a token or a key.
            </Empty>
          )
        }
      />
      {leaving !== null && (
        <Confirm title="Remove this repository?" action="Remove it" onConfirm={() => void end()} onCancel={() => leave(null)}>
          <p>{leaving.url}</p>
          <p className="quiet">It is refused while a service comes from it.</p>
        </Confirm>
      )}
    </div>
  );
}
