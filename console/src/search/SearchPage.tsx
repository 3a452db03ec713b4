import { useState, type SubmitEvent } from "react";
import { useQuery } from "urql";
import { Link } from "wouter";
import { ObjectsDocument } from "../api/generated";
import { componentState } from "../services/status";
import { Age } from "../ui/Age";
import { Problem } from "../ui/Problem";
import { Skeleton } from "../ui/Skeleton";
import { Status } from "../ui/Status";
import { Table } from "../ui/Table";
import { useParam } from "../ui/useParam";
import { useRowKeys } from "../ui/useRowKeys";

const EXAMPLES = ["kind:Deployment", "kind:Pod state:FAILED", "image:log4j<2.17", "label:app=web", "namespace:shop"];

function Found({ q }: { readonly q: string }) {
  const [after, setAfter] = useState<string | null>(null);
  const [{ data, error }] = useQuery({ query: ObjectsDocument, variables: { q, after } });
  if (error !== undefined && data == null) return <Problem error={error} />;
  if (data == null) return <Skeleton lines={8} />;
  const { edges, pageInfo, totalCount, totalCountKind } = data.search;
  if (edges.length === 0) return <p className="quiet">No object of any cluster is like that.</p>;
  return (
    <>
      <p className="quiet">
        {totalCountKind === "AT_LEAST" && "more than "}
        {totalCount?.toLocaleString()} objects
      </p>
      <Table label="Objects" titles={["Object", "Cluster", "Service", "Namespace", "State", "Images", "Known since"]}>
        {edges.map(({ node }) => {
          const { tone, word } = componentState(node.object.state);
          return (
            <tr key={node.id}>
              <td>
                <Link href={`/objects/${node.object.id}`}>{node.object.name}</Link> <span className="quiet">{node.object.kind}</span>
              </td>
              <td>
                <Link href={`/clusters/${node.cluster}`}>{node.cluster}</Link>
              </td>
              <td>
                <Link href={`/services/${node.serviceId}`}>{node.service}</Link>
              </td>
              <td>{node.object.namespace}</td>
              <td>
                <Status tone={tone}>{word}</Status>
              </td>
              <td>
                <code>{node.object.images.join(" ")}</code>
              </td>
              <td>
                <Age at={node.clusterPingedAt} staleAfter={node.stale ? 0 : undefined} />
              </td>
            </tr>
          );
        })}
      </Table>
      {pageInfo.hasNextPage && (
        <button type="button" className="more" onClick={() => setAfter(pageInfo.endCursor)}>
          Next page
        </button>
      )}
    </>
  );
}

/** Objects of all clusters at once, by kind, image and version, label, state, and words. */
export function SearchPage() {
  const [q, look] = useParam("q");
  const [text, setText] = useState(q);
  const [shown, show] = useState(q);
  useRowKeys();
  // The palette leads here with another question while this page is open.
  if (shown !== q) {
    show(q);
    setText(q);
  }
  const submit = (event: SubmitEvent) => {
    event.preventDefault();
    look(text.trim());
  };
  return (
    <>
      <form className="bar" role="search" onSubmit={submit}>
        <h1>Objects</h1>
        <input
          type="search"
          data-page-filter=""
          className="question"
          aria-label="Objects to look for"
          placeholder="kind:Deployment image:log4j<2.17 label:app=shop, and words that names contain"
          value={text}
          onChange={(event) => setText(event.target.value)}
          autoFocus
        />
        <button className="primary">Search</button>
      </form>
      {q === "" ? (
        <section className="card stack">
          <h2>Of all clusters at once</h2>
          <ul className="examples">
            {EXAMPLES.map((example) => (
              <li key={example}>
                <button type="button" className="link" onClick={() => look(example)}>
                  <code>{example}</code>
                </button>
              </li>
            ))}
          </ul>
        </section>
      ) : (
        <Found key={q} q={q} />
      )}
    </>
  );
}
