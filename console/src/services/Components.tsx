import { useMemo, useState } from "react";
import { Link } from "wouter";
import { Age } from "../ui/Age";
import { Status } from "../ui/Status";
import { Table } from "../ui/Table";
import { componentState } from "./status";
import { grow, type Branch, type Component } from "./service";

const MOST = 500;

type Line = { readonly component: Component; readonly depth: number; readonly folded: boolean | null };

/** The lines that are to be seen: children of folded ones are not. */
function lines(branches: readonly Branch[], folded: ReadonlySet<string>, depth = 0): Line[] {
  return branches.flatMap(({ component, children }) => {
    const isFolded = folded.has(component.id);
    const own = { component, depth, folded: children.length === 0 ? null : isFolded };
    return isFolded ? [own] : [own, ...lines(children, folded, depth + 1)];
  });
}

function Row({ line, onFold }: { readonly line: Line; readonly onFold: (id: string) => void }) {
  const { component, depth, folded } = line;
  const { tone, word } = componentState(component.state);
  return (
    <tr>
      <td className={`depth-${Math.min(depth, 6)}`}>
        {folded === null ? (
          <span className="twist" />
        ) : (
          <button type="button" className="twist" onClick={() => onFold(component.id)} aria-expanded={!folded}>
            <span aria-hidden="true">{folded ? "▸" : "▾"}</span>
            <span className="hidden-text">What it owns</span>
          </button>
        )}
        <span className="kind">{component.kind}</span> <Link href={`/objects/${component.id}`}>{component.name}</Link>
      </td>
      <td>
        <Status tone={tone}>{word}</Status> {!component.synced && <Status tone="warn">drifted</Status>}
      </td>
      <td className="wide">{component.message}</td>
      <td>{component.namespace}</td>
      <td>
        {component.images.map((image) => (
          <code key={image}>{image} </code>
        ))}
      </td>
      <td>
        <Age at={component.updatedAt} />
      </td>
    </tr>
  );
}

function fits(component: Component, text: string): boolean {
  const words = `${component.kind} ${component.name} ${component.namespace ?? ""} ${component.state ?? ""} ${component.images.join(" ")}`;
  return words.toLowerCase().includes(text);
}

/** What a service has in its cluster, as a tree of who owns whom; a filter makes it a list. */
export function Components({ of }: { readonly of: readonly Component[] }) {
  const [text, setText] = useState("");
  const [folded, setFolded] = useState<ReadonlySet<string>>(new Set());
  const [most, setMost] = useState(MOST);
  const trees = useMemo(() => grow(of), [of]);
  const shown = useMemo(() => {
    const wanted = text.trim().toLowerCase();
    if (wanted === "") return lines(trees, folded);
    return of.filter((one) => fits(one, wanted)).map((component) => ({ component, depth: 0, folded: null }));
  }, [of, trees, folded, text]);
  const fold = (id: string) =>
    setFolded((known) => {
      const next = new Set(known);
      if (!next.delete(id)) next.add(id);
      return next;
    });
  if (of.length === 0) return <p className="quiet">Nothing of it is in the cluster yet.</p>;
  return (
    <>
      <div className="bar">
        <input type="search" aria-label="Filter objects" placeholder="Filter objects" value={text} onChange={(event) => setText(event.target.value)} />
        <span className="quiet">{shown.length} shown</span>
      </div>
      <Table label="Objects" titles={["Object", "State", "Reason", "Namespace", "Images", "Changed"]}>
        {shown.slice(0, most).map((line) => (
          <Row key={line.component.id} line={line} onFold={fold} />
        ))}
      </Table>
      {shown.length > most && (
        <button type="button" className="more" onClick={() => setMost(most + MOST)}>
          {shown.length - most} more
        </button>
      )}
    </>
  );
}
