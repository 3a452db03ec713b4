import { useState, type SubmitEvent } from "react";
import { useMutation, useQuery } from "urql";
import { Link, useLocation, useSearch } from "wouter";
import { refresh } from "../api/client";
import { SavedViewsDocument, SaveViewDocument, type SavedViewRowFragment } from "../api/generated";
import { CopyButton } from "../ui/CopyButton";
import { Problem } from "../ui/Problem";
import { toast } from "../ui/toast";
import { inverseOf } from "../undo/inverses";
import { addressOf, attributesOf, listOf } from "./views";

type View = SavedViewRowFragment;

/** Views of the user before those of others. */
const ownFirst = (views: readonly View[]): readonly View[] => [...views.filter(({ own }) => own), ...views.filter(({ own }) => !own)];

/** Own and shared views of the shown list, and a form that saves the current one. */
export function SavedViews() {
  const [page] = useLocation();
  const search = useSearch();
  const [name, setName] = useState("");
  const list = listOf(page);
  const [{ data }] = useQuery({ query: SavedViewsDocument, variables: { list }, requestPolicy: "cache-and-network" });
  const [{ error, fetching }, save] = useMutation(SaveViewDocument);
  const views = ownFirst(data?.savedViews ?? []);
  const current = attributesOf(search);
  const here = addressOf({ list, query: "", columns: [], order: "", ...current } as View);
  const submit = async (event: SubmitEvent<HTMLFormElement>) => {
    event.preventDefault();
    const known = views.find((view) => view.own && view.name === name.trim());
    const result = await save({ id: known?.id ?? null, attributes: { ...current, name: name.trim(), list } });
    if (result.error !== undefined) return;
    setName("");
    refresh();
    toast("View saved", inverseOf(result, known));
  };
  return (
    <fieldset>
      <legend>Views</legend>
      {views.length > 0 && (
        <ul className="views">
          {views.map((view) => (
            <li key={view.id}>
              <Link href={addressOf(view)} aria-current={addressOf(view) === here ? "true" : undefined}>
                {view.name}
              </Link>{" "}
              {!view.own && <span className="quiet">{view.owner}</span>}
            </li>
          ))}
        </ul>
      )}
      <form onSubmit={(event) => void submit(event)}>
        <input aria-label="Name of the view" placeholder="Name of the view" maxLength={100} value={name} onChange={(event) => setName(event.target.value)} />
        <button disabled={name.trim() === "" || fetching}>Save view</button>
      </form>
      {error !== undefined && <Problem error={error} />}
      <CopyButton text={location.href} title="Copy link to this view" /> <Link href="/views">All views</Link>
    </fieldset>
  );
}
