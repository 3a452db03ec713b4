import { useDeferredValue, useEffect, useId, useMemo, useRef, useState, type KeyboardEvent } from "react";
import { useQuery } from "urql";
import { useLocation } from "wouter";
import { PlacesDocument, type PlacesQuery } from "../api/generated";
import { typing } from "../app/keys";
import { PAGES } from "../app/pages";
import { ACTIONS } from "./actions";
import { recent, remember } from "./recent";
import type { Entry } from "./entry";
import "./palette.css";

type Place = PlacesQuery["places"][number];

const PATHS: Record<Place["kind"], (place: Place) => string> = {
  CLUSTER: ({ name }) => `/clusters/${name}`,
  SERVICE: ({ id }) => `/services/${id}`,
  GROUP: ({ name }) => `/access?tab=roles&q=${encodeURIComponent(name)}`,
  REPOSITORY: ({ name }) => `/repositories?q=${encodeURIComponent(name)}`,
  PIPELINE: ({ id }) => `/pipelines/${id}`,
};

function entryOf(place: Place): Entry {
  const title = place.within === null ? place.name : `${place.within}/${place.name}`;
  return { kind: place.kind.toLowerCase(), title, path: PATHS[place.kind](place) };
}

const PAGE_ENTRIES: () => readonly Entry[] = () =>
  PAGES.flatMap(({ path, nav }) => (nav === undefined ? [] : [{ kind: "page", title: nav.title, path }]));

const searchPath = (q: string): string => `/search?q=${encodeURIComponent(q)}`;

/** Fallback entries: search for objects and for running images in all clusters. */
const fallbacks = (q: string): readonly Entry[] => [
  { kind: "objects", title: `Search objects in all clusters for “${q}”`, path: searchPath(q) },
  { kind: "images", title: `Search running images for “${q}”`, path: searchPath(`image:${q}`) },
];

/** Entries that match the present text, so that Enter never opens one of an older text. */
function useEntries(text: string): readonly Entry[] {
  const q = text.trim();
  const asked = useDeferredValue(q);
  const [{ data }] = useQuery({ query: PlacesDocument, variables: { q: asked }, pause: asked === "" });
  return useMemo(() => {
    if (q === "") return [...recent(), ...ACTIONS];
    const needle = q.toLowerCase();
    const found = data?.places.map(entryOf) ?? [];
    const named = [...found, ...PAGE_ENTRIES(), ...ACTIONS].filter(({ title }) => title.toLowerCase().includes(needle));
    return [...named, ...fallbacks(q)];
  }, [q, data]);
}

/** Command palette: Ctrl-K on every page, or `/` on pages without a filter. */
export function Palette() {
  const [open, setOpen] = useState(false);
  useEffect(() => {
    const onKey = (event: globalThis.KeyboardEvent) => {
      const isPalette = event.key === "k" && (event.ctrlKey || event.metaKey);
      const isSlash = event.key === "/" && !typing(event) && document.querySelector("[data-page-filter]") === null;
      if (!isPalette && !isSlash) return;
      event.preventDefault();
      setOpen(true);
    };
    addEventListener("keydown", onKey);
    return () => removeEventListener("keydown", onKey);
  }, []);
  return (
    <>
      <button type="button" className="palette-open" onClick={() => setOpen(true)}>
        <span>Search</span> <kbd>Ctrl K</kbd>
      </button>
      {open && <Dialog onClose={() => setOpen(false)} />}
    </>
  );
}

function Dialog({ onClose }: { readonly onClose: () => void }) {
  const dialog = useRef<HTMLDialogElement>(null);
  const list = useId();
  const [text, setText] = useState("");
  const [chosen, choose] = useState(0);
  const [, go] = useLocation();
  const entries = useEntries(text);
  const current = Math.min(chosen, entries.length - 1);
  useEffect(() => dialog.current?.showModal(), []);
  const open = (entry: Entry | undefined) => {
    if (entry === undefined) return;
    remember(entry);
    onClose();
    go(entry.path);
  };
  const onKey = (event: KeyboardEvent) => {
    const step = event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? -1 : 0;
    if (step !== 0) {
      event.preventDefault();
      choose((current + step + entries.length) % entries.length);
    } else if (event.key === "Enter") {
      event.preventDefault();
      open(entries[current]);
    }
  };
  return (
    <dialog ref={dialog} className="palette" aria-label="Search" onClose={onClose} onClick={(event) => event.target === dialog.current && onClose()}>
      <input
        autoFocus
        role="combobox"
        aria-expanded="true"
        aria-controls={list}
        aria-activedescendant={`${list}-${current}`}
        aria-label="Search services, clusters, pipelines, objects, actions"
        placeholder="Services, clusters, pipelines, images, actions…"
        value={text}
        onChange={(event) => {
          setText(event.target.value);
          choose(0);
        }}
        onKeyDown={onKey}
      />
      <ul id={list} role="listbox" aria-label="Results">
        {entries.map((entry, index) => (
          <li
            key={`${entry.kind} ${entry.path}`}
            id={`${list}-${index}`}
            role="option"
            aria-selected={index === current}
            onMouseMove={() => choose(index)}
            onClick={() => open(entry)}
          >
            <span className="quiet">{entry.kind}</span>
            {entry.title}
          </li>
        ))}
      </ul>
    </dialog>
  );
}
