import { useState, type SubmitEvent } from "react";
import { useMutation } from "urql";
import { CreateRepositoryDocument, UpdateRepositoryDocument, type RepositoryRowFragment } from "../api/generated";
import { exactlyOf, textOf } from "../ui/form";
import { FormBar } from "../ui/FormBar";
import { toast } from "../ui/toast";

type Props = {
  /** What is to be changed; without it a new one is connected. */
  readonly repository?: RepositoryRowFragment;
  readonly onDone: () => void;
};

/** Where a repository is and how it is read. What is kept of its sign-in is never shown, only replaced. */
export function RepositoryForm({ repository, onDone }: Props) {
  const [created, create] = useMutation(CreateRepositoryDocument);
  const [updated, update] = useMutation(UpdateRepositoryDocument);
  const [way, setWay] = useState("none");
  const isNew = repository === undefined;
  const submit = async (event: SubmitEvent<HTMLFormElement>) => {
    event.preventDefault();
    const form = new FormData(event.currentTarget);
    const secret = (name: string) => exactlyOf(form, name) || null;
    const attributes = { url: textOf(form, "url"), username: textOf(form, "username") || null, password: secret("password"), privateKey: secret("privateKey") };
    const result = isNew ? await create({ attributes }) : await update({ id: repository.id, attributes });
    if (result.error !== undefined) return;
    toast(isNew ? "The repository is connected; it is read once a service comes from it." : "It is read that way from now on.");
    onDone();
  };
  return (
    <form className="form card" onSubmit={(event) => void submit(event)}>
      <h2>{isNew ? "Connect a repository" : "Change how it is read"}</h2>
      <label>
        Address {!isNew && <small>on another server, its sign-in has to be given again</small>}
        <input name="url" required placeholder="https://git.example.org/shop.git" defaultValue={repository?.url} autoFocus />
      </label>
      <label>
        Sign in
        <select value={way} onChange={(event) => setWay(event.target.value)}>
          <option value="none">{isNew ? "not needed" : "as it was"}</option>
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
      <FormBar action={isNew ? "Connect" : "Save"} busy={created.fetching || updated.fetching} error={created.error ?? updated.error} onCancel={onDone} />
    </form>
  );
}
