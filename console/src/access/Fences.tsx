import { useDeferredValue, useMemo, useState } from "react";
import { useQuery } from "urql";
import { FencedProjectsDocument, FenceUseDocument, type FencedProjectsQuery, type FenceRuleFragment, type FenceUseQuery } from "../api/generated";
import { counted } from "../text/counts";
import { Combobox } from "../ui/Combobox";
import { Empty } from "../ui/Empty";
import type { GraphEdge, GraphNode } from "../ui/FlowGraph";
import { loadable } from "../ui/loadable";
import { Problem } from "../ui/Problem";
import { Skeleton } from "../ui/Skeleton";
import { STATES } from "../ui/states";
import { Status } from "../ui/Status";
import { Table } from "../ui/Table";
import { useParam } from "../ui/useParam";

const FlowGraph = loadable(() => import("../ui/FlowGraph"), "FlowGraph");

type Use = NonNullable<FenceUseQuery["fenceUse"]>;

const useOf = (count: number): string => (count === 0 ? "unused" : counted(count, "service"));

/** Boxes and edges of a fence: sources, the project, destinations. */
function pictureOf({ project, sources, destinations, refusals }: Use): { readonly nodes: readonly GraphNode[]; readonly edges: readonly GraphEdge[] } {
  const box = (side: string) => (rule: FenceRuleFragment, index: number): GraphNode => ({
    id: `${side}${index}`,
    title: rule.title,
    note: rule.note,
    state: rule.count === 0 ? STATES.unused : STATES.allowed,
  });
  const middle: GraphNode = {
    id: "project",
    title: project.name,
    note: refusals.length === 0 ? "all services are inside" : `${refusals.length.toLocaleString()} outside`,
    state: refusals.length === 0 ? STATES.allowed : STATES.denied,
  };
  return {
    nodes: [...sources.map(box("source")), middle, ...destinations.map(box("destination"))],
    edges: [
      ...sources.map(({ count }, index) => ({ id: `s${index}`, from: `source${index}`, to: "project", label: useOf(count) })),
      ...destinations.map(({ count }, index) => ({ id: `d${index}`, from: "project", to: `destination${index}`, label: useOf(count) })),
    ],
  };
}

function Rules({ label, rules }: { readonly label: string; readonly rules: readonly FenceRuleFragment[] }) {
  return (
    <section className="stack">
      <h2>{label}</h2>
      <Table label={label} titles={["Rule", "Conditions", "Use", "Services"]}>
        {rules.map(({ title, note, count, services }, index) => (
          <tr key={index}>
            <td>
              <code>{title}</code>
            </td>
            <td className="wide">{note}</td>
            <td>
              <Status state={count === 0 ? STATES.unused : STATES.allowed} detail={count === 0 ? "" : counted(count, "service")} />
            </td>
            <td className="wide">{services.join(", ")}</td>
          </tr>
        ))}
        {rules.length === 0 && (
          <tr>
            <td colSpan={4}>No rule: everything is denied.</td>
          </tr>
        )}
      </Table>
    </section>
  );
}

function Refusals({ refusals }: { readonly refusals: Use["refusals"] }) {
  return (
    <section className="stack">
      <h2>Services outside the fence</h2>
      {refusals.length === 0 ? (
        <p className="quiet">None.</p>
      ) : (
        <Table label="Services outside the fence" titles={["Service", "Reason"]}>
          {refusals.map(({ service, reason }) => (
            <tr key={service}>
              <td>
                <strong>{service}</strong>
              </td>
              <td className="wide">
                <Status state={STATES.denied} detail={reason} />
              </td>
            </tr>
          ))}
        </Table>
      )}
    </section>
  );
}

function Fence({ projectId }: { readonly projectId: string }) {
  const [{ data, error }] = useQuery({ query: FenceUseDocument, variables: { projectId }, requestPolicy: "cache-and-network" });
  const use = data?.fenceUse;
  const picture = useMemo(() => (use == null ? null : pictureOf(use)), [use]);
  if (error !== undefined && use == null) return <Problem error={error} />;
  if (use == null || picture === null) return <Skeleton lines={10} />;
  if (use.project.fence.unrestricted) {
    return (
      <Empty title="This project has no fence">
        Its services may use every source, destination and kind. Give it a fence with <code>towline projects fence {use.project.name} -f fence.yaml</code>.
      </Empty>
    );
  }
  const { fence } = use.project;
  return (
    <div className="stack">
      <FlowGraph label={`Fence of project ${use.project.name}; the tables below have the same content`} nodes={picture.nodes} edges={picture.edges} />
      <Rules label="Sources" rules={use.sources} />
      <Rules label="Destinations" rules={use.destinations} />
      <p className="quiet">
        Limits: {limitsOf(fence)}. Cluster-scoped kinds: {fence.clusterScopedKinds.join(", ") || "none"}. Denied kinds: {fence.deniedKinds.join(", ") || "none"}. Images: {imagesOf(fence)}.
      </p>
      <Refusals refusals={use.refusals} />
    </div>
  );
}

/** Limits that a fence sets. */
function limitsOf({ maxServices, maxObjects, maxRendersPerMinute, maxOpenStreams }: Use["project"]["fence"]): string {
  const limits = [
    ...(maxServices === 0 ? [] : [`at most ${counted(maxServices, "service")}`]),
    ...(maxObjects === 0 ? [] : [`at most ${counted(maxObjects, "object")} in one service`]),
    ...(maxRendersPerMinute === 0 ? [] : [`at most ${counted(maxRendersPerMinute, "render")} a minute`]),
    ...(maxOpenStreams === 0 ? [] : [`at most ${counted(maxOpenStreams, "open request")} to clusters`]),
  ];
  return limits.join(", ") || "none";
}

/** Images that a fence allows, and their signers. */
function imagesOf({ images }: Use["project"]["fence"]): string {
  return images.map(({ match, signedBy }) => (signedBy.length === 0 ? match : `${match} (signed by ${signedBy.join(", ")})`)).join(", ") || "any";
}

/** Fences of projects as a picture and as tables: what each rule lets through today. */
export function Fences() {
  const [chosen, choose] = useParam("project");
  const [{ data, error }] = useQuery({ query: FencedProjectsDocument, variables: { q: useDeferredValue(chosen) || null } });
  const found = useLastProjects(data);
  if (error !== undefined && data == null) return <Problem error={error} />;
  if (found === undefined) return <Skeleton lines={4} />;
  const project = chosen === "" ? found[0] : found.find(({ name }) => name === chosen);
  return (
    <div className="stack">
      <div className="bar">
        <Combobox label="Project" placeholder={found[0]?.name ?? "Project"} value={chosen} offered={found.map(({ name }) => name)} onChange={choose} />
      </div>
      {project !== undefined && <Fence key={project.id} projectId={project.id} />}
      {project === undefined && <NoProject chosen={chosen} matches={found.length} />}
    </div>
  );
}

type Projects = readonly { readonly id: string; readonly name: string }[];

/** Projects of the last answer, so that the field stays while the next one is fetched. */
function useLastProjects(data: FencedProjectsQuery | undefined): Projects | undefined {
  const now = useMemo(() => data?.projects.edges.map(({ node }) => node), [data]);
  const [last, keep] = useState<Projects>();
  if (now !== undefined && now !== last) keep(now);
  return now ?? last;
}

function NoProject({ chosen, matches }: { readonly chosen: string; readonly matches: number }) {
  if (chosen === "") return <Empty title="No projects">You can read no project.</Empty>;
  return <Empty title={`Project “${chosen}” not found`}>{matches === 0 ? "No project that you can read has this name." : "Select one of the suggested projects."}</Empty>;
}
