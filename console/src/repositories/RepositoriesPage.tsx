import { useState, type SubmitEvent } from "react";
import { useMutation } from "urql";
import { Link } from "wouter";
import { refresh } from "../api/client";
import { CreateRepositoryDocument, DeleteRepositoryDocument, RepositoriesDocument, SyncRepositoryDocument, type RepositoryRowFragment } from "../api/generated";
import { safeUrl } from "../text/links";
import { Age } from "../ui/Age";
import { Confirm } from "../ui/Confirm";
import { Empty } from "../ui/Empty";
import { FilterField } from "../ui/FilterField";
import { textOf } from "../ui/form";
import { FormBar } from "../ui/FormBar";
import { PagedTable } from "../ui/PagedTable";
import { Problem } from "../ui/Problem";
import { Status } from "../ui/Status";
import { toast } from "../ui/toast";
import { useParam } from "../ui/useParam";

const FOLLOW = 3_000;

function Row({ repository, onDelete }: { readonly repository: RepositoryRowFragment; readonly onDelete: () => void }) {
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
        <button type="button" disabled={fetching} onClick={() => void sync({ id: repository.id }).then((result) => result.error === undefined && toast("It is looked at now."))}>
          Look now
        </button>{" "}
        <button type="button" onClick={onDelete}>
          Remove…
        </button>
        {error !== undefined && <Problem error={error} />}
      </td>
    </tr>
  );
}

function Connect({ onDone }: { readonly onDone: () => void }) {
  const [{ error, fetching }, create] = useMutation(CreateRepositoryDocument);
  const [way, setWay] = useState("none");
  const submit = async (event: SubmitEvent<HTMLFormElement>) => {
    event.preventDefault();
    const form = new FormData(event.currentTarget);
    const given = (name: string) => textOf(form, name) || null;
    const attributes = { url: textOf(form, "url"), username: given("username"), password: given("password"), privateKey: given("privateKey") };
    const result = await create({ attributes });
    if (result.error !== undefined) return;
    toast("The repository is connected; it is read once a service comes from it.");
    onDone();
  };
  return (
    <form className="form card" onSubmit={(event) => void submit(event)}>
      <h2>Connect a repository</h2>
      <label>
        Address
        <input name="url" required placeholder="https://git.example.org/shop.git" autoFocus />
      </label>
      <label>
        Sign in
        <select value={way} onChange={(event) => setWay(event.target.value)}>
          <option value="none">not needed</option>
          <option value="password">by name and token</option>
          <option value="key">by SSH key</option>
        </select>
      </label>
      {way === "password" && (
        <div className="two">
          <label>
            Name
            <input name="username" autoComplete="off" />
          </label>
          <label>
            Token
            <input name="password" type="password" autoComplete="new-password" />
          </label>
        </div>
      )}
      {way === "key" && (
        <label>
          Private key <small>kept sealed; nobody sees it again</small>
          <textarea name="privateKey" rows={6} spellCheck={false} />
        </label>
      )}
      <FormBar action="Connect" busy={fetching} error={error} onCancel={onDone} />
    </form>
  );
}

/** Where services come from: whether each can be read, and what was read last. */
export function RepositoriesPage() {
  const [q] = useParam("q");
  const [isNew, setNew] = useParam("new");
  const [removed, remove] = useMutation(DeleteRepositoryDocument);
  const [leaving, leave] = useState<RepositoryRowFragment | null>(null);
  const done = () => {
    setNew("");
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
      {isNew !== "" && <Connect onDone={done} />}
      {removed.error !== undefined && <Problem error={removed.error} />}
      <PagedTable
        label="Repositories"
        titles={["Address", "State", "Newest", "Signs in", "Read", ""]}
        query={RepositoriesDocument}
        variables={{ q: q || null }}
        pick={(data) => data.gitRepositories}
        row={(one) => <Row key={one.id} repository={one} onDelete={() => leave(one)} />}
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
