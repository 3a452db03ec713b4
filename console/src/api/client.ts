// GraphQL client: queries and mutations over HTTP, subscriptions over one WebSocket.
import { cacheExchange, type KeyGenerator } from "@urql/exchange-graphcache";
import { Client, fetchExchange, mapExchange, subscriptionExchange, type CombinedError, type SubscriptionForwarder } from "@urql/core";
import { createClient as createSocket } from "graphql-ws";
import { check, onReconnect, reportReachable, reportUnreachable } from "../live/connection";
import { activeExchange, refetchActive } from "./active";
import { distinctExchange } from "./distinct";
import { KEYLESS, TicketDocument } from "./generated";
import { orderedExchange } from "./ordered";
import { sessionExpired } from "./session";
import { isUncached, UNCACHED, uncachedExchange } from "./uncached";

/** Header that the control plane requires against cross-site request forgery. */
export const CSRF = { "X-Towline-CSRF": "console" };

const SIGNED_OUT = 4401;
const NORMAL = 1000;
// graphql-ws closes a connection with this code if it gets no ticket; the ticket request reports the reason.
const NO_TICKET = 4005;
/** Limits in milliseconds. A frozen server, or a network that drops packets, closes no connection. */
const PONG_LIMIT = 8_000;
const SLOW_ANSWER = 10_000;

/** Fetches a one-time secret for a WebSocket, because browsers cannot set headers on it. Bypasses the cache. */
export async function ticket(): Promise<string> {
  const { data, error } = await client.mutation(TicketDocument, {}, UNCACHED).toPromise();
  if (data == null) throw error ?? new Error("the control plane returned no ticket");
  return data.createTicket;
}

let pendingTicket: Promise<string> | undefined;

/** URL of the WebSocket; starts the ticket request in parallel. */
function socketUrl(): string {
  pendingTicket = ticket();
  // `connectionParams` awaits the ticket and handles its error.
  pendingTicket.catch(() => undefined);
  return `${location.protocol === "https:" ? "wss" : "ws"}://${location.host}/gql`;
}

let unanswered: ReturnType<typeof setTimeout> | undefined;

const socket = createSocket({
  url: socketUrl,
  lazyCloseTimeout: 3000,
  connectionParams: async () => ({ token: await (pendingTicket ?? ticket()) }),
  retryAttempts: Number.POSITIVE_INFINITY,
  shouldRetry: () => true,
  // Full jitter, so that the consoles do not all reconnect to a restarted control plane at the same time.
  retryWait: (retries) => pause(Math.random() * Math.min(20_000, 500 * 2 ** retries)),
  keepAlive: 12_000,
  on: {
    connected: () => {
      reportReachable();
      // Changes between the first answers and this connection sent no message.
      refresh();
    },
    ping: (isFromServer) => {
      if (!isFromServer) unanswered = setTimeout(() => socket.terminate(), PONG_LIMIT);
    },
    pong: (isFromServer) => {
      if (isFromServer) clearTimeout(unanswered);
    },
    closed: (event) => {
      clearTimeout(unanswered);
      const code = event instanceof CloseEvent ? event.code : 0;
      if (code === SIGNED_OUT) sessionExpired();
      else if (code !== NORMAL && code !== NO_TICKET) reportUnreachable();
    },
  },
});

function pause(milliseconds: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, milliseconds));
}

const unkeyed: KeyGenerator = () => null;

// Types whose id belongs to another type or is not always selected.
const SHARED_IDS = ["AffectedService", "ComponentContent", "ComponentLive", "FleetMapRow", "FoundObject", "Place", "PlannedService", "PolicyBinding"];

// The cache embeds types without an id in their parent.
const cache = cacheExchange({
  keys: Object.fromEntries([...KEYLESS, ...SHARED_IDS].map((name) => [name, unkeyed])),
});

/** Error code of the API: `FORBIDDEN`, `NOT_FOUND`, …; empty if the server did not respond. */
export function codeOf(error: CombinedError | undefined): string {
  const code = error?.graphQLErrors[0]?.extensions["code"];
  return typeof code === "string" ? code : "";
}

async function watchedFetch(input: RequestInfo | URL, init?: RequestInit): Promise<Response> {
  const slow = setTimeout(() => void check(), SLOW_ANSWER);
  try {
    const response = await fetch(input, init);
    if (response.status < 500) reportReachable();
    else reportUnreachable();
    return response;
  } catch (error) {
    if (!(error instanceof DOMException && error.name === "AbortError")) reportUnreachable();
    throw error;
  } finally {
    clearTimeout(slow);
  }
}

const forwardSubscription: SubscriptionForwarder = (request) => ({
  subscribe: (sink) => ({
    unsubscribe: socket.subscribe(
      { ...request, query: request.query ?? "" },
      { ...sink, next: ({ data, errors }) => sink.next({ data: data ?? null, errors }) },
    ),
  }),
});

export const client = new Client({
  url: "/gql",
  preferGetMethod: false,
  fetch: watchedFetch,
  fetchOptions: { credentials: "same-origin", headers: CSRF },
  requestPolicy: "cache-and-network",
  exchanges: [
    mapExchange({
      onResult: ({ error }) => {
        if (codeOf(error) === "UNAUTHENTICATED") sessionExpired();
      },
    }),
    activeExchange,
    distinctExchange,
    subscriptionExchange({ forwardSubscription, isSubscriptionOperation: (operation) => operation.kind === "subscription" && isUncached(operation) }),
    uncachedExchange,
    cache,
    orderedExchange,
    fetchExchange,
    subscriptionExchange({ forwardSubscription }),
  ],
});

/** Fetches all active queries again; unsaved input stays. */
export const refresh = (): void => refetchActive(client);

onReconnect(refresh);
