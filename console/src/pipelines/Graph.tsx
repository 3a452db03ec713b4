import { useMemo } from "react";
import type { PipelineBoardFragment } from "../api/generated";
import { FlowGraph } from "../ui/FlowGraph";
import { stageHealth } from "./stages";

const SHAPES: Record<string, string> = { OPEN: "✓", CLOSED: "✕" };

/** The pipeline as a graph; a release on its way moves along its edge. The board says the same in words. */
export function Graph({ pipeline }: { readonly pipeline: PipelineBoardFragment }) {
  const spots = useMemo(
    () =>
      pipeline.stages.map(({ id, name, health, release }) => {
        const [tone, word] = stageHealth(health);
        return { id, title: name, note: release === null ? "no release" : `#${release.number}`, tone, word };
      }),
    [pipeline],
  );
  const ways = useMemo(
    () =>
      pipeline.edges.map(({ id, from, to, gates, release }) => ({
        id,
        from: from.id,
        to: to.id,
        label: gates.map(({ name, state }) => `${SHAPES[state] ?? "▲"} ${name}`).join("  "),
        moving: release !== null,
      })),
    [pipeline],
  );
  return <FlowGraph label={`Graph of ${pipeline.name}`} spots={spots} ways={ways} />;
}
