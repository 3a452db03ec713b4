import { DeliveriesDocument, ResendNotificationDocument, type DeliveriesQuery, type DeliveriesQueryVariables } from "../api/generated";
import type { Action, Kind } from "../manage/kind";
import { Age } from "../ui/Age";
import { STATES } from "../ui/states";
import { Status } from "../ui/Status";

type Delivery = DeliveriesQuery["notificationDeliveries"]["edges"][number]["node"] & { readonly sink: string };

const DELIVERY_STATES = { WAITING: STATES.waiting, DONE: STATES.delivered, DEAD: STATES.failed };

const RESEND: Action<Delivery> = {
  title: "Resend",
  permission: { verb: "WRITE", kind: "NOTIFICATION" },
  consequence: ({ sink }) => `Sends the same notification to ${sink} again. The receiver may get it twice.`,
  command: (_, { id }) => ["notifications", "resend", id],
  run: (client, _, { id }) => client.mutation(ResendNotificationDocument, { id }).toPromise(),
  done: "Notification queued again",
};

export const DELIVERIES: Kind<DeliveriesQuery, DeliveriesQueryVariables, Delivery> = {
  title: "Deliveries",
  noun: ["delivery", "deliveries"],
  hint: "Messages to sinks appear here with their result.",
  query: DeliveriesDocument,
  variables: () => ({ state: null }),
  unfiltered: true,
  pick: ({ notificationDeliveries, notificationSinks }) => ({
    pageInfo: notificationDeliveries.pageInfo,
    edges: notificationDeliveries.edges.map(({ node }) => ({ node: { ...node, sink: notificationSinks.edges.find(({ node: { id } }) => id === node.sinkId)?.node.name ?? node.sinkId } })),
  }),
  id: ({ id }) => id,
  name: ({ sink }) => sink,
  columns: [
    ["State", ({ state }) => <Status state={DELIVERY_STATES[state]} />],
    ["Attempts", ({ attempts }) => attempts],
    ["HTTP status", ({ status }) => status],
    ["Error", ({ error }) => error],
    ["Created", ({ insertedAt }) => <Age at={insertedAt} />],
    ["Finished", ({ finishedAt }) => <Age at={finishedAt} never="" />],
  ],
  create: [],
  actions: [RESEND],
  follow: 5_000,
};
