import { graphlib, layout } from "@dagrejs/dagre";
import { Background, Controls, Handle, Position, ReactFlow, type Edge, type Node, type NodeProps } from "@xyflow/react";
import { useMemo } from "react";
import "@xyflow/react/dist/style.css";
import { useLocation } from "wouter";
import { useThemeName } from "../app/theme";
import type { State } from "./states";
import { Status } from "./Status";
import "./graph.css";

export type GraphNode = {
  readonly id: string;
  readonly title: string;
  readonly note: string;
  readonly state: State;
  /** Path that a click opens. */
  readonly path?: string;
  readonly selected?: boolean;
};
export type GraphEdge = { readonly id: string; readonly from: string; readonly to: string; readonly label: string; readonly moving?: boolean };

type BoxNode = Node<{ readonly node: GraphNode }, "box">;

const WIDTH = 200;
const HEIGHT = 76;
const RANK = 150;
const MARGIN = 64;
const MAX_HEIGHT = 420;
// A phone shows the whole graph.
const MIN_ZOOM = 0.2;

function Box({ data: { node } }: NodeProps<BoxNode>) {
  return (
    <div className={`graph-node ${node.state.tone}${node.selected === true ? " selected" : ""}`} title={`${node.title}\n${node.note}`.trim()}>
      <Handle type="target" position={Position.Left} />
      <strong>{node.title}</strong>
      <span className="quiet">{node.note}</span>
      <Status state={node.state} />
      <Handle type="source" position={Position.Right} />
    </div>
  );
}

const TYPES = { box: Box };

/** Positions the nodes from left to right, so that no edge runs backwards. */
function positioned(nodes: readonly GraphNode[], edges: readonly GraphEdge[]): BoxNode[] {
  const graph = new graphlib.Graph();
  graph.setGraph({ rankdir: "LR", ranksep: RANK, nodesep: 30 });
  graph.setDefaultEdgeLabel(() => ({}));
  for (const { id } of nodes) graph.setNode(id, { width: WIDTH, height: HEIGHT });
  for (const { from, to } of edges) graph.setEdge(from, to);
  layout(graph);
  return nodes.map((node) => {
    const { x, y } = graph.node(node.id) as { readonly x: number; readonly y: number };
    return { id: node.id, type: "box", position: { x: x - WIDTH / 2, y: y - HEIGHT / 2 }, data: { node } };
  });
}

type Props = { readonly label: string; readonly nodes: readonly GraphNode[]; readonly edges: readonly GraphEdge[] };

/** Graph of boxes and edges. The page that shows it repeats its content as text, for screen readers. */
export function FlowGraph({ label, nodes, edges }: Props) {
  const [, go] = useLocation();
  const theme = useThemeName() === "dark" ? "dark" : "light";
  const boxes = useMemo(() => positioned(nodes, edges), [nodes, edges]);
  const lines: Edge[] = useMemo(() => edges.map(({ id, from, to, label: text, moving }) => ({ id, source: from, target: to, animated: moving === true, label: text || undefined })), [edges]);
  const tallest = Math.max(...boxes.map(({ position }) => position.y)) + HEIGHT;
  return (
    <div className="graph" style={{ height: Math.min(MAX_HEIGHT, tallest + 2 * MARGIN) }}>
      <ReactFlow
        nodes={boxes}
        edges={lines}
        nodeTypes={TYPES}
        colorMode={theme}
        fitView
        fitViewOptions={{ maxZoom: 1.1 }}
        minZoom={MIN_ZOOM}
        nodesDraggable={false}
        nodesConnectable={false}
        edgesFocusable={false}
        proOptions={{ hideAttribution: true }}
        onNodeClick={(_, { data: { node } }) => node.path !== undefined && go(node.path)}
        aria-label={label}
      >
        <Background />
        <Controls showInteractive={false} />
      </ReactFlow>
    </div>
  );
}
