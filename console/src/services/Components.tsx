import { useMemo, useState } from "react";
import { Link } from "wouter";
import { Age } from "../ui/Age";
import { Status } from "../ui/Status";
import { Table } from "../ui/Table";
import { componentState, STATES } from "../ui/states";
import { actionsFor } from "../workloads/actions";
import { WorkloadActions, targetOf } from "../workloads/WorkloadActions";
import { PickAll, PickCell, SelectionBar } from "../bulk/Pick";
import { useSelection, type Selection } from "../bulk/useSelection";
import { useRowKeys } from "../ui/useRowKeys";
import { SyncObjects } from "./SyncObjects";
import { grow, type Branch, type Component } from "./service";

const PAGE_SIZE = 500;

type Line = { readonly component: Component; readonly depth: number; readonly folded: boolean | null };

/** Visible lines; the children of folded ones are hidden. */
function lines(branches: readonly Branch[], folded: ReadonlySet<string>, depth = 0): Line[] {
  return branches.flatMap(({ component, children }) => {
    const isFolded = folded.has(component.id);
    const own = { component, depth, folded: children.length === 0 ? null : isFolded };
    return isFolded ? [own] : [own, ...lines(children, folded, depth + 1)];
  });
}

type RowProps = { readonly line: Line; readonly selection: Selection; readonly onFold: (id: string) => void };

function Row({ line, selection, onFold }: RowProps) {
  const { component, depth, folded } = line;
  return (
    <tr className={selection.chosen.has(component.id) ? "chosen" : undefined}>
      {hasActions(component) ? <PickCell id={component.id} name={`${component.kind} ${component.name}`} selection={selection} /> : <td className="pick" />}
      <td className={`depth-${Math.min(depth, 6)}`}>
        {folded === null ? (
          <span className="twist" />
        ) : (
          <button type="button" className="twist" onClick={() => onFold(component.id)} aria-expanded={!folded}>
            <span aria-hidden="true">{folded ? "▸" : "▾"}</span>
            <span className="hidden-text">Owned objects</span>
          </button>
        )}
        <span className="kind">{component.kind}</span> <Link href={`/objects/${component.id}`}>{component.name}</Link>
      </td>
      <td>
        <Status state={componentState(component.state)} /> {!component.synced && <Status state={STATES.outOfSync} />}
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

/** Objects that other objects of the cluster own are not in Git, so a sync applies only the others. */
const isApplied = ({ ownerUid }: Component): boolean => !ownerUid;

const hasActions = (component: Component): boolean => isApplied(component) || actionsFor([component]).length > 0;

type Props = { readonly of: readonly Component[]; readonly handle: string; readonly serviceId: string };

/** Objects of a service in its cluster, as a tree by owner; a filter flattens it to a list. */
export function Components({ of, handle, serviceId }: Props) {
  const [text, setText] = useState("");
  const [folded, setFolded] = useState<ReadonlySet<string>>(new Set());
  const [limit, setLimit] = useState(PAGE_SIZE);
  const trees = useMemo(() => grow(of), [of]);
  const shown = useMemo(() => {
    const wanted = text.trim().toLowerCase();
    if (wanted === "") return lines(trees, folded);
    return of.filter((component) => fits(component, wanted)).map((component) => ({ component, depth: 0, folded: null }));
  }, [of, trees, folded, text]);
  const visible = useMemo(() => shown.slice(0, limit), [shown, limit]);
  const selection = useSelection(useMemo(() => (handle === "" ? [] : visible.flatMap(({ component }) => (hasActions(component) ? [component.id] : []))), [visible, handle]));
  const picked = visible.flatMap(({ component }) => (selection.chosen.has(component.id) ? [component] : []));
  const chosen = picked.map((component) => targetOf(component, handle, serviceId));
  useRowKeys();
  const fold = (id: string) =>
    setFolded((known) => {
      const next = new Set(known);
      if (!next.delete(id)) next.add(id);
      return next;
    });
  if (of.length === 0) return <p className="quiet">No objects in the cluster yet.</p>;
  return (
    <>
      <div className="bar">
        <input type="search" aria-label="Filter objects" placeholder="Filter objects" value={text} onChange={(event) => setText(event.target.value)} />
        <span className="quiet">{shown.length.toLocaleString()} shown</span>
      </div>
      <Table label="Objects" titles={["Object", "State", "Reason", "Namespace", "Images", "Changed"]} pick={<PickAll selection={selection} />}>
        {visible.map((line) => (
          <Row key={line.component.id} line={line} selection={selection} onFold={fold} />
        ))}
      </Table>
      {shown.length > limit && (
        <button type="button" className="more" onClick={() => setLimit(limit + PAGE_SIZE)}>
          Show more ({shown.length - limit})
        </button>
      )}
      <SelectionBar selection={selection}>
        {picked.every(isApplied) && <SyncObjects serviceId={serviceId} objects={picked} title="Sync…" />}
        {actionsFor(chosen.map(({ ref }) => ref)).length === 0 ? <span className="quiet">The selected kinds have no common action</span> : <WorkloadActions targets={chosen} />}
      </SelectionBar>
    </>
  );
}
