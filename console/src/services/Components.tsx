import { useMemo, useState } from "react";
import { Status } from "../ui/Status";
import { componentState } from "./status";
import { grow, type Branch, type Component } from "./service";

function Line({ branch, depth }: { readonly branch: Branch; readonly depth: number }) {
  const [open, setOpen] = useState(depth < 2);
  const { component, children } = branch;
  const { tone, word } = componentState(component.state);
  return (
    <>
      <tr aria-level={depth + 1} aria-expanded={children.length > 0 ? open : undefined}>
        <td className={`depth-${Math.min(depth, 6)}`}>
          {children.length > 0 ? (
            <button type="button" className="twist" onClick={() => setOpen(!open)} aria-label={open ? "Fold" : "Unfold"}>
              {open ? "▾" : "▸"}
            </button>
          ) : (
            <span className="twist" />
          )}
          <span className="quiet">{component.kind}</span> {component.name}
        </td>
        <td>{component.namespace}</td>
        <td>
          <Status tone={tone}>{word}</Status>
        </td>
        <td className="wide">{component.message}</td>
        <td>
          {component.images.map((image) => (
            <code key={image}>{image} </code>
          ))}
        </td>
      </tr>
      {open && children.map((child) => <Line key={key(child.component)} branch={child} depth={depth + 1} />)}
    </>
  );
}

const key = (one: Component) => one.id;

/** What a service has in its cluster, as a tree of who owns whom. */
export function Components({ of }: { readonly of: readonly Component[] }) {
  const trees = useMemo(() => grow(of), [of]);
  return (
    <table className="table tree" role="treegrid" aria-label="Objects">
      <thead>
        <tr>
          {["Object", "Namespace", "State", "Reason", "Images"].map((title) => (
            <th key={title} scope="col">
              {title}
            </th>
          ))}
        </tr>
      </thead>
      <tbody>
        {trees.map((branch) => (
          <Line key={key(branch.component)} branch={branch} depth={0} />
        ))}
      </tbody>
    </table>
  );
}
