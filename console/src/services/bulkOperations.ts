// Operations on several services at once.
import type { Client } from "urql";
import { BulkRevisionsDocument, ReleaseDocument, RollbackDocument, SyncServiceDocument, UpdateServiceDocument, type ServiceRowFragment } from "../api/generated";
import type { Operation, Plan } from "../bulk/operation";
import { refusalOf } from "../bulk/refusal";
import { commandLine } from "../manage/values";
import { serviceState } from "../ui/states";
import { inverseOf, type Done, type Undo } from "../undo/inverses";
import { labelServices } from "./labels";

type Service = ServiceRowFragment;
/** Id of the revision of a rollback; manifests of changed labels. */
type Planned = { readonly revisionId?: string; readonly manifest?: object; readonly before?: object };
export type ServiceOperation = Operation<Service, Planned>;

const nameOf = ({ cluster, name }: Service): string => `${cluster?.handle ?? ""}/${name}`;
const READY: Planned = {};

/** Throws the error of an answer, or gives what takes the mutation back. */
async function settled(answer: Promise<Done & { readonly error?: Error | undefined }>, service: Service): Promise<Undo | null> {
  const result = await answer;
  if (result.error !== undefined) throw result.error;
  return inverseOf(result, service);
}

type Part = Pick<ServiceOperation, "title" | "done" | "consequence" | "run"> & {
  readonly effect: (client: Client, service: Service) => Plan<Planned> | Promise<Plan<Planned>>;
  readonly words: (service: Service) => readonly string[];
};

const ready = (field: string, before: string | null, after: string, planned: Planned = READY, notes: readonly string[] = []): Plan<Planned> => ({ kind: "ready", planned, changes: [{ field, before, after }], notes });
const unchanged = (reason: string): Plan<Planned> => ({ kind: "unchanged", reason });

/** Operation that checks the permission for each service before its effect. */
function operation(client: Client, { effect, words, ...rest }: Part): ServiceOperation {
  return {
    ...rest,
    noun: "service",
    key: ({ id }) => id,
    name: nameOf,
    plan: async (service) => {
      const refusal = await refusalOf(client, { verb: "WRITE", kind: "SERVICE" }, service.id);
      return refusal ?? effect(client, service);
    },
    commands: (services) => services.map((service) => commandLine(words(service))),
    yaml: () => "",
  };
}

async function previous(client: Client, service: Service): Promise<Plan<Planned>> {
  const { data, error } = await client.query(BulkRevisionsDocument, { id: service.id }, { requestPolicy: "network-only" }).toPromise();
  if (data == null) throw error ?? new Error("the control plane did not answer");
  const nodes = data.revisions.edges.map(({ node }) => node);
  const current = data.serviceDeployment?.revision?.id;
  const at = nodes.findIndex(({ id }) => id === current);
  const target = nodes[at + 1];
  if (at === -1 || target === undefined) return unchanged("It has no earlier revision.");
  return ready("commit", service.sha?.slice(0, 8) ?? null, `${target.sha.slice(0, 8)} ${target.subject}`, { revisionId: target.id }, ["Pinned to this commit: the service ignores new commits until you unpin it."]);
}

/** Operations for lists of services. */
export const serviceOperations = (client: Client): readonly ServiceOperation[] => [
  operation(client, {
    title: "Sync services",
    done: "syncing",
    consequence: "The agents read Git and cluster again, and apply what differs.",
    effect: (_, service) => (service.paused ? { kind: "refused", reason: "The service is suspended: resume it first." } : ready("state", serviceState(service.status).label, "syncs now")),
    run: (_, service) => settled(client.mutation(SyncServiceDocument, { id: service.id }).toPromise(), service),
    words: (service) => ["services", "sync", nameOf(service)],
  }),
  operation(client, {
    title: "Suspend services",
    done: "suspended",
    consequence: "Nothing changes the services until they resume: neither new commits nor self-heal.",
    effect: (_, { paused }) => (paused ? unchanged("It is suspended already.") : ready("suspended", "false", "true")),
    run: (_, service) => settled(client.mutation(UpdateServiceDocument, { id: service.id, attributes: { paused: true } }).toPromise(), service),
    words: (service) => ["services", "pause", nameOf(service)],
  }),
  operation(client, {
    title: "Resume services",
    done: "resumed",
    consequence: "The services follow Git again. Self-heal reverts changes that were made in the meantime.",
    effect: (_, { paused }) => (paused ? ready("suspended", "true", "false") : unchanged("It is not suspended.")),
    run: (_, service) => settled(client.mutation(UpdateServiceDocument, { id: service.id, attributes: { paused: false } }).toPromise(), service),
    words: (service) => ["services", "resume", nameOf(service)],
  }),
  operation(client, {
    title: "Roll back services",
    done: "rolled back",
    consequence: "Each service goes back to its previous revision, and is pinned to it.",
    effect: previous,
    run: ({ revisionId }, service) => settled(client.mutation(RollbackDocument, { id: service.id, revisionId: revisionId ?? "" }).toPromise(), service),
    words: (service) => ["services", "rollback", nameOf(service)],
  }),
  labelServices(client, nameOf),
  operation(client, {
    title: "Unpin services",
    done: "unpinned",
    consequence: "The services follow their branch again and take its newest commit.",
    effect: (_, { status, sha }) => (status === "PINNED" ? ready("pinned", sha?.slice(0, 8) ?? null, "follows the branch") : unchanged("No rollback pins it.")),
    run: (_, service) => settled(client.mutation(ReleaseDocument, { id: service.id }).toPromise(), service),
    words: (service) => ["services", "unpin", nameOf(service)],
  }),
];
