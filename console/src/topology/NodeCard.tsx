import { memo } from "react";
import { ChevronLeft, ChevronRight, GitCompareArrows } from "lucide-react";
import type { Vertex } from "./graph";
import type { Place } from "./layout";

type Props = {
  readonly vertex: Vertex;
  readonly place: Place;
  readonly isSelected: boolean;
  readonly isDim: boolean;
  readonly onSelect: (id: string) => void;
  readonly onFold: (id: string) => void;
};

/** Title of the button that folds or opens a node; null: the node has none. */
function foldTitle({ owned, isFolded, members }: Vertex): string | null {
  if (owned === null) return `Show ${members.length} objects`;
  return owned === 0 ? null : isFolded ? `Show ${owned} owned objects` : "Hide owned objects";
}

/** Node of the topology: kind, name and state of an object, or of a group of alike objects. */
export const NodeCard = memo(function NodeCard({ vertex, place, isSelected, isDim, onSelect, onFold }: Props) {
  const { id, kind, name, state, outOfSync, owned, isFolded } = vertex;
  const title = foldTitle(vertex);
  return (
    <div className={`topology-node ${state.tone}${isSelected ? " selected" : ""}${isDim ? " dim" : ""}${owned === null ? " group" : ""}`} style={{ left: place.x, top: place.y }}>
      <button type="button" data-node={id} aria-pressed={isSelected} className="topology-card" onClick={() => onSelect(isSelected ? "" : id)} title={`${kind} ${name}`}>
        <span className="topology-head">
          <span className="kind">{kind}</span>
          {outOfSync && (
            <span className="status warn" title="Out of sync">
              <GitCompareArrows size={12} aria-hidden="true" />
              <span className="hidden-text">Out of sync</span>
            </span>
          )}
          <span className={`status ${state.tone}`}>
            <span aria-hidden="true">{state.shape}</span> {state.label}
          </span>
        </span>
        <strong>{name}</strong>
      </button>
      {title !== null && (
        <button type="button" className="topology-fold" onClick={() => onFold(id)} aria-expanded={owned !== null && !isFolded} title={title}>
          {owned !== null && !isFolded ? <ChevronLeft size={12} aria-hidden="true" /> : <ChevronRight size={12} aria-hidden="true" />}
          {isFolded && owned}
          <span className="hidden-text">{title}</span>
        </button>
      )}
    </div>
  );
});
