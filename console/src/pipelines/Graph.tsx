import { useMemo } from "react";
import type { PipelineBoardFragment } from "../api/generated";
import { FlowGraph } from "../ui/FlowGraph";
import { gateState, stageState } from "../ui/states";

/** Graph of a pipeline; edges with a waiting release are animated. The board shows the same as text. */
export function Graph({ pipeline }: { readonly pipeline: PipelineBoardFragment }) {
  const nodes = useMemo(
    () => pipeline.stages.map(({ id, name, health, release }) => ({ id, title: name, note: release === null ? "no release" : `#${release.number}`, state: stageState(health) })),
    [pipeline],
  );
  const edges = useMemo(
    () =>
      pipeline.edges.map(({ id, from, to, gates, release }) => ({
        id,
        from: from.id,
        to: to.id,
        label: gates.map(({ name, state }) => `${gateState(state).shape} ${name}`).join("  "),
        moving: release !== null,
      })),
    [pipeline],
  );
  return <FlowGraph label={`Graph of ${pipeline.name}`} nodes={nodes} edges={edges} />;
}
