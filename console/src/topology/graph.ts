// Graph of a service's objects: owners and references, with large sets of alike objects as one node.
import type { ObjectRelationsQuery } from "../api/generated";
import { grow, type Branch, type Component } from "../services/service";
import { componentState, type State, type Tone } from "../ui/states";

export type Relation = NonNullable<ObjectRelationsQuery["objectRelations"]>[number];
export type EdgeKind = "OWNER" | Relation["kind"];

export type Vertex = {
  readonly id: string;
  readonly kind: string;
  readonly name: string;
  readonly state: State;
  readonly outOfSync: boolean;
  /** The object; several for a group of alike objects. */
  readonly members: readonly Component[];
  /** Number of objects that the node owns directly; null for a group. */
  readonly owned: number | null;
  readonly isFolded: boolean;
};

/** Edge from left to right: an owner or an input is left of what it owns or serves. */
export type Edge = { readonly from: string; readonly to: string; readonly kind: EdgeKind };
export type Graph = { readonly vertices: readonly Vertex[]; readonly edges: readonly Edge[] };

/** Alike objects of one owner above this number are one node. */
export const GROUP_SIZE = 6;

const isGroup = ({ owned }: Vertex): boolean => owned === null;
const READ: ReadonlySet<EdgeKind> = new Set(["CONFIGURATION", "PERMISSION"]);
const URGENCY: readonly Tone[] = ["bad", "warn", "busy", "idle", "ok"];

/** Worst state of a set of objects. */
export function worst(states: readonly State[]): State | undefined {
  return [...states].sort((left, right) => URGENCY.indexOf(left.tone) - URGENCY.indexOf(right.tone))[0];
}

class Builder {
  readonly vertices: Vertex[] = [];
  readonly edges = new Map<string, Edge>();
  /** Node that shows an object: its own, its group, or a folded owner. */
  private readonly shownBy = new Map<string, string>();

  constructor(
    private readonly related: ReadonlySet<string>,
    private readonly opened: ReadonlySet<string>,
    private readonly folded: ReadonlySet<string>,
  ) {}

  add(branches: readonly Branch[], owner: string): void {
    const alike = new Map<string, Branch[]>();
    for (const branch of branches) {
      const { component, children } = branch;
      const isAlone = owner === "" && (children.length > 0 || this.related.has(component.id));
      const key = isAlone ? component.id : `${owner} ${component.kind} ${component.state ?? ""} ${component.synced}`;
      const known = alike.get(key);
      if (known === undefined) alike.set(key, [branch]);
      else known.push(branch);
    }
    for (const [key, set] of alike) {
      if (set.length > GROUP_SIZE && !this.opened.has(key)) this.addGroup(key, set, owner);
      else for (const branch of set) this.addOne(branch, owner);
    }
  }

  relate(relations: readonly Relation[], shown: ReadonlySet<EdgeKind>): void {
    for (const { sourceId, targetId, kind } of relations) {
      const [source, target] = [this.shownBy.get(sourceId), this.shownBy.get(targetId)];
      if (!shown.has(kind) || source === undefined || target === undefined || source === target) continue;
      if (READ.has(kind)) this.connect(target, source, kind);
      else this.connect(source, target, kind);
    }
  }

  private addGroup(id: string, set: readonly Branch[], owner: string): void {
    const members = set.map(({ component }) => component);
    const [first] = members;
    if (first === undefined) return;
    this.vertices.push({ id, kind: first.kind, name: `${members.length.toLocaleString()} objects`, state: componentState(first.state), outOfSync: !first.synced, members, owned: null, isFolded: false });
    for (const branch of set) this.hide(branch, id);
    if (owner !== "") this.connect(owner, id, "OWNER");
  }

  private addOne({ component, children }: Branch, owner: string): void {
    const { id, kind, name, state, synced } = component;
    const isFolded = children.length > 0 && this.folded.has(id);
    this.vertices.push({ id, kind, name, state: componentState(state), outOfSync: !synced, members: [component], owned: children.length, isFolded });
    this.shownBy.set(id, id);
    if (owner !== "") this.connect(owner, id, "OWNER");
    if (isFolded) for (const child of children) this.hide(child, id);
    else this.add(children, id);
  }

  private hide({ component, children }: Branch, by: string): void {
    this.shownBy.set(component.id, by);
    for (const child of children) this.hide(child, by);
  }

  private connect(from: string, to: string, kind: EdgeKind): void {
    this.edges.set(`${from} ${to} ${kind}`, { from, to, kind });
  }
}

/** Graph of objects; `opened` are groups that show their members, `folded` objects that hide what they own. */
export function graphOf(components: readonly Component[], relations: readonly Relation[], shown: ReadonlySet<EdgeKind>, opened: ReadonlySet<string>, folded: ReadonlySet<string>): Graph {
  const related = new Set(relations.filter(({ kind }) => shown.has(kind)).flatMap(({ sourceId, targetId }) => [sourceId, targetId]));
  const builder = new Builder(related, opened, folded);
  builder.add(grow(components), "");
  builder.relate(relations, shown);
  return { vertices: builder.vertices, edges: [...builder.edges.values()] };
}

/** Ids of the nodes that match a filter, or need attention. */
export function matching({ vertices }: Graph, text: string, problemsOnly: boolean): ReadonlySet<string> {
  const words = text.trim().toLowerCase();
  const fits = (vertex: Vertex): boolean => {
    if (problemsOnly && vertex.state.tone !== "bad" && vertex.state.tone !== "busy" && !vertex.outOfSync) return false;
    return words === "" || `${vertex.kind} ${vertex.name}`.toLowerCase().includes(words) || (isGroup(vertex) && vertex.members.some(({ name }) => name.toLowerCase().includes(words)));
  };
  return new Set(vertices.filter(fits).map(({ id }) => id));
}
