import { useState, type SubmitEvent } from "react";
import { useMutation } from "urql";
import { CreateRepositoryDocument, UpdateRepositoryDocument, type RepositoryRowFragment } from "../api/generated";
import { exactlyOf, textOf } from "../ui/form";
import { FormBar } from "../ui/FormBar";
import { toast } from "../ui/toast";

type Props = {
  /** Repository to edit; without it the form connects a new one. */
  readonly repository?: RepositoryRowFragment;
  /** Called with the id of the repository after a save; without it after a cancel. */
  readonly onDone: (saved?: string) => void;
};

/** URL and credentials of a repository. Stored credentials are never shown, only replaced. */
export function RepositoryForm({ repository, onDone }: Props) {
  const [created, create] = useMutation(CreateRepositoryDocument);
  const [updated, update] = useMutation(UpdateRepositoryDocument);
  const [method, setMethod] = useState("none");
  const isNew = repository === undefined;
  const submit = async (event: SubmitEvent<HTMLFormElement>) => {
    event.preventDefault();
    const form = new FormData(event.currentTarget);
    const secret = (name: string) => exactlyOf(form, name) || null;
    const attributes = { url: textOf(form, "url"), username: textOf(form, "username") || null, password: secret("password"), privateKey: secret("privateKey") };
    const saved = isNew ? (await create({ attributes })).data?.createGitRepository : (await update({ id: repository.id, attributes })).data?.updateGitRepository;
    if (saved == null) return;
    toast(isNew ? "Repository added" : "Repository updated");
    onDone(saved.id);
  };
  return (
    <form className="form card" onSubmit={(event) => void submit(event)}>
      <h2>{isNew ? "Connect repository" : "Edit repository"}</h2>
      <label>
        URL {!isNew && <small>for another host, enter the credentials again</small>}
        <input name="url" required placeholder="https://git.example.org/shop.git" defaultValue={repository?.url} autoFocus />
      </label>
      <label>
        Authentication
        <select value={method} onChange={(event) => setMethod(event.target.value)}>
          <option value="none">{isNew ? "none" : "keep current"}</option>
          <option value="password">username and token</option>
          <option value="key">SSH key</option>
        </select>
      </label>
      {method === "password" && (
        <div className="two">
          <label>
            Username
            <input name="username" autoComplete="off" />
          </label>
          <label>
            Token
            <input name="password" type="password" autoComplete="new-password" />
          </label>
        </div>
      )}
      {method === "key" && (
        <label>
          Private key <small>stored encrypted; cannot be viewed again</small>
          <textarea name="privateKey" rows={6} spellCheck={false} />
        </label>
      )}
      <FormBar action={isNew ? "Connect" : "Save"} busy={created.fetching || updated.fetching} error={created.error ?? updated.error} onCancel={() => onDone()} />
    </form>
  );
}
