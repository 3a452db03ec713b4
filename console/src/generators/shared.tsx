// Parts that global services, service sets and managed namespaces share.
import type { CombinedError, TypedDocumentNode } from "urql";
import { Link } from "wouter";
import type { ClusterDistro, EvaluationFragment, GeneratedFragment, LeavePolicy, PlanFragment, PlannedFragment, SelectorFragment, ServiceDeploymentAttributes } from "../api/generated";
import type { Action, FormField, Outcome, Permission, Values } from "../manage/kind";
import { list, mapping, number, pairs, pairWords, text } from "../manage/values";
import { Age } from "../ui/Age";
import { serviceState, STATES } from "../ui/states";
import { Status } from "../ui/Status";
import { Table } from "../ui/Table";

export const WRITE: Permission = { verb: "WRITE", kind: "SERVICE" };

const DISTROS = ["ANY", "GENERIC", "EKS", "AKS", "GKE", "RKE", "K3S", "OPENSHIFT"] as const;
const POLICIES = ["DETACH", "DELETE"] as const satisfies readonly LeavePolicy[];

export function distroOf(values: Values): ClusterDistro | null {
  const distro = DISTROS.find((known) => known === text(values, "distro"));
  return distro === undefined || distro === "ANY" ? null : distro;
}

export const policyOf = (values: Values, name: string): LeavePolicy => (text(values, name) === "DELETE" ? "DELETE" : "DETACH");
export const budgetOf = (values: Values): number | null => number(values, "budget");

export const SELECTOR_FIELDS: readonly FormField[] = [
  { path: "tags", title: "Cluster tags", note: "clusters with all of these tags; name=value, separated by spaces", of: "list" },
  { path: "groups", title: "Cluster groups", choice: "cluster group", many: true },
  { path: "distro", title: "Distribution", of: DISTROS },
  { path: "ignored", title: "Excluded clusters", choice: "cluster", many: true },
];

export const POLICY_FIELDS: readonly FormField[] = [
  { path: "onLeave", title: "A cluster no longer matches", note: "detach keeps the objects, delete removes them", of: POLICIES },
  { path: "onDelete", title: "The definition is deleted", of: POLICIES },
  { path: "budget", title: "Deletion budget", note: "more deletions wait for a confirmation", of: "number" },
];

export const TEMPLATE_FIELDS: readonly FormField[] = [
  { path: "serviceName", title: "Service name", required: true },
  { path: "namespace", title: "Namespace", required: true },
  { path: "repository", title: "Repository", choice: "repository", required: true },
  { path: "ref", title: "Branch, tag or commit", required: true },
  { path: "folder", title: "Folder", required: true },
  { path: "more", title: "More settings of the service", note: "fields of the API such as helm, kustomize, configuration", of: "yaml" },
];

export const PROJECT_FIELD: FormField = { path: "project", title: "Project", note: "empty: clusters of all projects", choice: "project" };

export const selectorOf = (values: Values) => ({ tags: pairs(values, "tags"), groupIds: list(values, "groups"), ignoredClusterIds: list(values, "ignored"), distro: distroOf(values) });

export const templateOf = (values: Values): ServiceDeploymentAttributes => ({
  name: text(values, "serviceName"),
  namespace: text(values, "namespace"),
  repositoryId: text(values, "repository"),
  git: { ref: text(values, "ref"), folder: text(values, "folder") },
  ...mapping(values, "more"),
});

type Names = { readonly edges: readonly { readonly node: { readonly id: string } & ({ readonly name: string } | { readonly handle: string }) }[] };

/** Names of resources among the first rows of a list; the id of others. */
export const namesOf = (known: Names, ids: readonly string[]): string[] =>
  ids.map((id) => {
    const found = known.edges.find(({ node }) => node.id === id)?.node;
    return found === undefined ? id : "name" in found ? found.name : found.handle;
  });

export type Named = { readonly groups: readonly string[]; readonly ignored: readonly string[] };

type Definition = Named & { readonly selector: SelectorFragment; readonly onLeave: LeavePolicy; readonly onDelete: LeavePolicy; readonly deletionBudget: number };

export const initialOf = ({ selector, groups, ignored, onLeave, onDelete, deletionBudget }: Definition): Values => ({
  tags: pairWords(selector.tags),
  groups,
  ignored,
  distro: selector.distro ?? "ANY",
  onLeave,
  onDelete,
  budget: deletionBudget,
});

/** Selector in words: tags, groups and distribution. */
export function selectorWords({ selector, groups }: Pick<Definition, "selector" | "groups">): string {
  const parts = [...pairWords(selector.tags), ...groups.map((name) => `group ${name}`), ...(selector.distro === null ? [] : [selector.distro.toLowerCase()])];
  return parts.length === 0 ? "all clusters" : parts.join(", ");
}

export function Evaluated({ state }: { readonly state: EvaluationFragment }) {
  if (state.deletedAt !== null) return <Status state={STATES.progressing} detail="being deleted" />;
  if (state.problem !== null) return <Status state={STATES.failed} detail={state.problem} />;
  if (state.waiting > 0) return <Status state={STATES.awaitingApproval} detail={`${state.waiting} deletions`} />;
  return state.evaluatedAt === null ? <Status state={STATES.pending} /> : <><Status state={STATES.ready} /> <Age at={state.evaluatedAt} /></>;
}

export function GeneratedServices({ services }: { readonly services: readonly GeneratedFragment[] }) {
  if (services.length === 0) return <p className="quiet">No services.</p>;
  return (
    <Table label="Services of the definition" titles={["Service", "Namespace", "State"]}>
      {services.map(({ id, name, namespace, status, cluster }) => (
        <tr key={id}>
          <td>
            <Link href={`/services/${id}`}>
              {cluster?.handle ?? "deleted cluster"}/{name}
            </Link>
          </td>
          <td>{namespace}</td>
          <td>
            <Status state={serviceState(status)} />
          </td>
        </tr>
      ))}
    </Table>
  );
}

function PlanRows({ title, rows }: { readonly title: string; readonly rows: readonly PlannedFragment[] }) {
  if (rows.length === 0) return null;
  return (
    <section className="part">
      <h3>{title}</h3>
      <ul>
        {rows.slice(0, 20).map(({ clusterId, name, namespace, ref, folder }) => (
          <li key={`${clusterId} ${name}`}>
            {name} <span className="quiet">in {namespace}, {folder} at {ref}</span>
          </li>
        ))}
      </ul>
    </section>
  );
}

/** Services that a definition would create, change and delete. */
export function PlanView({ plan }: { readonly plan: PlanFragment }) {
  return (
    <div className="stack">
      <p>
        <strong>
          {plan.creates} created, {plan.updates} updated, {plan.deletes} deleted
        </strong>
        {plan.frozen > 0 && `, ${plan.frozen} frozen`}
      </p>
      {plan.problem !== null && <p className="status bad">{plan.problem}</p>}
      {!plan.complete && <p className="quiet">The evaluation is incomplete, so nothing is deleted.</p>}
      <PlanRows title="Create" rows={plan.create} />
      <PlanRows title="Update" rows={plan.update} />
      <PlanRows title="Delete" rows={plan.delete} />
      <PlanRows title="Kept: deletion budget" rows={plan.withheld} />
      <PlanRows title="Skipped: a service with this name exists" rows={plan.collisions} />
    </div>
  );
}

export const shown = (plan: PlanFragment | undefined, error: CombinedError | undefined): Outcome => ({ error, content: plan === undefined ? undefined : <PlanView plan={plan} /> });

type Row = { readonly id: string; readonly name: string; readonly state: EvaluationFragment };

type IdOnly = { readonly id: string };

/** Actions that re-evaluate and delete a definition. */
export function lifeOf<Synced, Deleted>(noun: string, group: string, sync: TypedDocumentNode<Synced, IdOnly & { readonly confirm: number }>, remove: TypedDocumentNode<Deleted, IdOnly>): readonly Action<Row>[] {
  return [
    {
      title: "Evaluate now",
      permission: WRITE,
      consequence: ({ state }) => (state.waiting > 0 ? `${state.waiting} deletions exceed the budget. They run only if you allow at least that many.` : "Creates, updates and removes services according to the definition."),
      fields: [{ path: "confirm", title: "Allowed deletions", note: "0: the budget of the definition", of: "number" }],
      initial: ({ state }) => ({ confirm: state.waiting }),
      command: (values, { name }) => [group, "sync", name, ...((number(values, "confirm") ?? 0) > 0 ? ["--confirm", text(values, "confirm")] : [])],
      run: (client, values, { id }) => client.mutation(sync, { id, confirm: number(values, "confirm") ?? 0 }).toPromise(),
      done: "Evaluation started",
    },
    {
      title: `Delete ${noun}`,
      permission: WRITE,
      consequence: () => "Its policy decides about its services: delete removes their objects from all clusters, detach keeps them.",
      typed: ({ name }) => name,
      command: (_, { name }) => [group, "delete", name],
      run: (client, _, { id }) => client.mutation(remove, { id }).toPromise(),
      done: "Deletion started",
    },
  ];
}
