import { useRef, useState, type SubmitEvent } from "react";
import { Link } from "wouter";
import { ObjectsDocument, type ObjectsQuery } from "../api/generated";
import { LAST_SEEN_INTERVAL } from "../live/useFollow";
import { componentState } from "../ui/states";
import { Age } from "../ui/Age";
import { PagedTable } from "../ui/PagedTable";
import { Status } from "../ui/Status";
import { useParam } from "../ui/useParam";
import { useRowKeys } from "../ui/useRowKeys";
import { useSlash } from "../ui/useSlash";

const EXAMPLES = ["kind:Deployment", "kind:Pod state:FAILED", "health:unknown", "image:log4j<2.17", "label:app=web", "namespace:shop"];

type FoundObject = ObjectsQuery["search"]["edges"][number]["node"];

function Row({ found }: { readonly found: FoundObject }) {
  return (
    <tr>
      <td>
        <Link href={`/objects/${found.object.id}`}>{found.object.name}</Link> <span className="quiet">{found.object.kind}</span>
      </td>
      <td>
        <Link href={`/clusters/${found.cluster}`}>{found.cluster}</Link>
      </td>
      <td>
        <Link href={`/services/${found.serviceId}`}>{found.service}</Link>
      </td>
      <td>{found.object.namespace}</td>
      <td>
        <Status state={componentState(found.object.state)} />
      </td>
      <td>
        <code>{found.object.images.join(" ")}</code>
      </td>
      <td>
        <Age at={found.clusterPingedAt} staleAfter={found.stale ? 0 : undefined} />
      </td>
    </tr>
  );
}

function Found({ q }: { readonly q: string }) {
  return (
    <PagedTable
      label="Objects"
      titles={["Object", "Cluster", "Service", "Namespace", "State", "Images", "Last seen"]}
      query={ObjectsDocument}
      variables={{ q }}
      pick={(data) => data.search}
      row={(found) => <Row key={found.id} found={found} />}
      counted={["object", "objects"]}
      follow={LAST_SEEN_INTERVAL}
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
  useRowKeys();
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
