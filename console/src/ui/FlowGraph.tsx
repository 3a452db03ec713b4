import { graphlib, layout } from "@dagrejs/dagre";
import { Background, Controls, Handle, Position, ReactFlow, type Edge, type Node, type NodeProps } from "@xyflow/react";
import { useMemo } from "react";
import "@xyflow/react/dist/style.css";
import { useLocation } from "wouter";
import { useThemeName } from "../app/theme";
import { Status, type Tone } from "./Status";
import "./graph.css";

export type Spot = {
  readonly id: string;
  readonly title: string;
  readonly note: string;
  readonly tone: Tone;
  readonly word: string;
  /** Where a click leads. */
  readonly path?: string;
  readonly chosen?: boolean;
};
export type Way = { readonly id: string; readonly from: string; readonly to: string; readonly label: string; readonly moving?: boolean };

type SpotNode = Node<{ readonly spot: Spot }, "spot">;

const WIDTH = 200;
const HEIGHT = 76;
const RANK = 150;
const MARGIN = 64;
const MOST = 420;

function Box({ data: { spot } }: NodeProps<SpotNode>) {
  return (
    <div className={`graph-spot ${spot.tone}${spot.chosen === true ? " chosen" : ""}`} title={spot.title}>
      <Handle type="target" position={Position.Left} />
      <strong>{spot.title}</strong>
      <span className="quiet">{spot.note}</span>
      <Status tone={spot.tone}>{spot.word}</Status>
      <Handle type="source" position={Position.Right} />
    </div>
  );
}

const TYPES = { spot: Box };

/** Places from left to right, so that no way runs back. */
function placed(spots: readonly Spot[], ways: readonly Way[]): SpotNode[] {
  const graph = new graphlib.Graph();
  graph.setGraph({ rankdir: "LR", ranksep: RANK, nodesep: 30 });
  graph.setDefaultEdgeLabel(() => ({}));
  for (const { id } of spots) graph.setNode(id, { width: WIDTH, height: HEIGHT });
  for (const { from, to } of ways) graph.setEdge(from, to);
  layout(graph);
  return spots.map((spot) => {
    const { x, y } = graph.node(spot.id) as { readonly x: number; readonly y: number };
    return { id: spot.id, type: "spot", position: { x: x - WIDTH / 2, y: y - HEIGHT / 2 }, data: { spot } };
  });
}

type Props = { readonly label: string; readonly spots: readonly Spot[]; readonly ways: readonly Way[] };

/** Boxes and the ways between them. Whoever shows it says the same in words beside it. */
export function FlowGraph({ label, spots, ways }: Props) {
  const [, go] = useLocation();
  const theme = useThemeName() === "dark" ? "dark" : "light";
  const nodes = useMemo(() => placed(spots, ways), [spots, ways]);
  const edges: Edge[] = useMemo(() => ways.map(({ id, from, to, label: text, moving }) => ({ id, source: from, target: to, animated: moving === true, label: text || undefined })), [ways]);
  const tallest = Math.max(...nodes.map(({ position }) => position.y)) + HEIGHT;
  return (
    <div className="graph" style={{ height: Math.min(MOST, tallest + 2 * MARGIN) }}>
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
        onNodeClick={(_, { data: { spot } }) => spot.path !== undefined && go(spot.path)}
        aria-label={label}
      >
        <Background />
        <Controls showInteractive={false} />
      </ReactFlow>
    </div>
  );
}
