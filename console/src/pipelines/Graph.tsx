import { graphlib, layout } from "@dagrejs/dagre";
import { Background, Controls, Handle, Position, ReactFlow, type Edge as FlowEdge, type Node, type NodeProps } from "@xyflow/react";
import { useMemo } from "react";
import "@xyflow/react/dist/style.css";
import type { PipelineBoardFragment } from "../api/generated";
import { useThemeName } from "../app/theme";
import { Status } from "../ui/Status";
import { stageHealth, type Stage } from "./stages";
import "./graph.css";

type StageNode = Node<{ readonly stage: Stage }, "stage">;

const WIDTH = 190;
const HEIGHT = 76;

function Box({ data: { stage } }: NodeProps<StageNode>) {
  const [tone, word] = stageHealth(stage.health);
  return (
    <div className={`graph-stage ${tone}`}>
      <Handle type="target" position={Position.Left} />
      <strong>{stage.name}</strong>
      <span className="quiet">{stage.release === null ? "no release" : `#${stage.release.number}`}</span>
      <Status tone={tone}>{word}</Status>
      <Handle type="source" position={Position.Right} />
    </div>
  );
}

const TYPES = { stage: Box };

/** Places from left to right, so that no edge runs back. */
function placed(pipeline: PipelineBoardFragment): StageNode[] {
  const graph = new graphlib.Graph();
  graph.setGraph({ rankdir: "LR", ranksep: 150, nodesep: 30 });
  graph.setDefaultEdgeLabel(() => ({}));
  for (const { id } of pipeline.stages) graph.setNode(id, { width: WIDTH, height: HEIGHT });
  for (const { from, to } of pipeline.edges) graph.setEdge(from.id, to.id);
  layout(graph);
  return pipeline.stages.map((stage) => {
    const { x, y } = graph.node(stage.id) as { readonly x: number; readonly y: number };
    return { id: stage.id, type: "stage", position: { x: x - WIDTH / 2, y: y - HEIGHT / 2 }, data: { stage } };
  });
}

function joined(pipeline: PipelineBoardFragment): FlowEdge[] {
  return pipeline.edges.map(({ id, from, to, gates, release }) => ({
    id,
    source: from.id,
    target: to.id,
    animated: release !== null,
    label: gates.map(({ name, state }) => `${state === "OPEN" ? "✓" : state === "CLOSED" ? "✕" : "▲"} ${name}`).join("  ") || undefined,
  }));
}

/** The pipeline as a graph; a release on its way moves along its edge. The board says the same in words. */
export function Graph({ pipeline }: { readonly pipeline: PipelineBoardFragment }) {
  const nodes = useMemo(() => placed(pipeline), [pipeline]);
  const edges = useMemo(() => joined(pipeline), [pipeline]);
  const theme = useThemeName() === "dark" ? "dark" : "light";
  return (
    <div className="graph">
      <ReactFlow
        nodes={nodes}
        edges={edges}
        nodeTypes={TYPES}
        colorMode={theme}
        fitView
        fitViewOptions={{ maxZoom: 1.1 }}
        nodesDraggable={false}
        nodesConnectable={false}
        edgesFocusable={false}
        proOptions={{ hideAttribution: true }}
        aria-label={`Graph of ${pipeline.name}`}
      >
        <Background />
        <Controls showInteractive={false} />
      </ReactFlow>
    </div>
  );
}
