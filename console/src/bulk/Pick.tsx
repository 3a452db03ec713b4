import type { ReactNode } from "react";
import type { Selection } from "./useSelection";
import { MAX_CHOSEN } from "./useSelection";
import "./bulk.css";

/** Cell with the checkbox of a row. */
export function PickCell({ id, name, selection }: { readonly id: string; readonly name: string; readonly selection: Selection }) {
  return (
    <td className="pick">
      <input type="checkbox" aria-label={`Select ${name}`} checked={selection.chosen.has(id)} onChange={() => undefined} onClick={(event) => selection.toggle(id, event.shiftKey)} />
    </td>
  );
}

/** Head of the column of checkboxes. */
export function PickAll({ selection }: { readonly selection: Selection }) {
  return <input type="checkbox" aria-label="Select all rows" checked={selection.isAll} disabled={selection.isEmpty} onChange={selection.toggleAll} />;
}

/** Bar with the number of selected rows and their actions; hidden without a selection. */
export function SelectionBar({ selection, children }: { readonly selection: Selection; readonly children: ReactNode }) {
  const { size } = selection.chosen;
  if (size === 0) return null;
  return (
    <div className="selection-bar" role="toolbar" aria-label="Selected rows">
      <strong>{size.toLocaleString()} selected</strong>
      {size === MAX_CHOSEN && <span className="quiet">the most at once</span>}
      {children}
      <span className="fill" />
      <button type="button" className="plain" onClick={selection.clear}>
        Clear selection
      </button>
    </div>
  );
}
