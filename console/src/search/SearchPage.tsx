import { useRef, useState, type SubmitEvent } from "react";
import { Link } from "wouter";
import { ObjectsDocument, type ObjectsQuery } from "../api/generated";
import { LAST_SEEN_INTERVAL } from "../live/useFollow";
import { List, type Column } from "../lists/List";
import { actionsFor } from "../workloads/actions";
import { WorkloadActions, targetOf } from "../workloads/WorkloadActions";
import { componentState } from "../ui/states";
import { Age } from "../ui/Age";
import { Status } from "../ui/Status";
import { useParam } from "../ui/useParam";
import { useSlash } from "../ui/useSlash";

const EXAMPLES = ["kind:Deployment", "kind:Pod state:FAILED", "health:unknown", "image:log4j<2.17", "label:app=web", "namespace:shop"];

type FoundObject = ObjectsQuery["search"]["edges"][number]["node"];

const COLUMNS: readonly Column<FoundObject>[] = [
  {
    id: "object",
    title: "Object",
    isLong: true,
    sort: ({ object }) => object.name,
    cell: ({ object }) => (
      <>
        <Link href={`/objects/${object.id}`}>{object.name}</Link> <span className="quiet">{object.kind}</span>
      </>
    ),
  },
  { id: "cluster", title: "Cluster", isLong: true, sort: ({ cluster }) => cluster, cell: ({ cluster }) => <Link href={`/clusters/${cluster}`}>{cluster}</Link> },
  { id: "service", title: "Service", isLong: true, sort: ({ service }) => service, cell: ({ serviceId, service }) => <Link href={`/services/${serviceId}`}>{service}</Link> },
  { id: "namespace", title: "Namespace", isLong: true, sort: ({ object }) => object.namespace, cell: ({ object }) => object.namespace },
  { id: "state", title: "State", sort: ({ object }) => componentState(object.state).label, cell: ({ object }) => <Status state={componentState(object.state)} /> },
  { id: "reason", title: "Reason", isLong: true, isOptional: true, cell: ({ object }) => object.message },
  { id: "images", title: "Images", isLong: true, cell: ({ object }) => <code>{object.images.join(" ")}</code> },
  { id: "changed", title: "Changed", isOptional: true, sort: ({ object }) => object.updatedAt, cell: ({ object }) => <Age at={object.updatedAt} /> },
  { id: "seen", title: "Last seen", cell: ({ clusterPingedAt, stale }) => <Age at={clusterPingedAt} staleAfter={stale ? 0 : undefined} /> },
];

/** Rows of a page that the search returns at most. */
const MAX_FOUND = 100;
const idOf = ({ id }: FoundObject): string => id;

function Bulk({ found }: { readonly found: readonly FoundObject[] }) {
  const targets = found.map(({ object, cluster, serviceId }) => targetOf(object, cluster, serviceId));
  if (actionsFor(targets.map(({ ref }) => ref)).length === 0) return <span className="quiet">The selected kinds have no common action</span>;
  return <WorkloadActions targets={targets} />;
}

function Found({ q }: { readonly q: string }) {
  return (
    <List
      label="Objects"
      counted={["object", "objects"]}
      columns={COLUMNS}
      query={ObjectsDocument}
      variables={{ q }}
      pick={(data) => data.search}
      id={idOf}
      name={({ object }) => `${object.kind} ${object.name}`}
      bulk={(found) => <Bulk found={found} />}
      follow={LAST_SEEN_INTERVAL}
      maxPage={MAX_FOUND}
      empty={<p className="quiet">No matching objects.</p>}
    />
  );
}

/** Search for objects in all clusters by kind, image, version, label, state and name. */
export function SearchPage() {
  const [q, search] = useParam("q");
  const [text, setText] = useState(q);
  const [shown, show] = useState(q);
  const field = useRef<HTMLInputElement>(null);
  useSlash(field);
  // The command palette can open this page with another query while it is already open.
  if (shown !== q) {
    show(q);
    setText(q);
  }
  const submit = (event: SubmitEvent) => {
    event.preventDefault();
    search(text.trim());
  };
  return (
    <>
      <form className="bar" role="search" onSubmit={submit}>
        <h1>Objects</h1>
        <input
          ref={field}
          type="search"
          data-page-filter=""
          className="question"
          aria-label="Search objects"
          placeholder="kind:Deployment image:log4j<2.17 label:app=shop, or part of a name"
          value={text}
          onChange={(event) => setText(event.target.value)}
          onKeyDown={(event) => event.key === "Escape" && text === "" && event.currentTarget.blur()}
          autoFocus
        />
        <button className="primary">Search</button>
      </form>
      {q === "" ? (
        <section className="card stack">
          <h2>Example searches across all clusters</h2>
          <ul className="examples">
            {EXAMPLES.map((example) => (
              <li key={example}>
                <button type="button" className="link" onClick={() => search(example)}>
                  <code>{example}</code>
                </button>
              </li>
            ))}
          </ul>
        </section>
      ) : (
        <Found q={q} />
      )}
    </>
  );
}
