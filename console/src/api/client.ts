// The one connection to the control plane: queries over HTTP, changes over one WebSocket.
import { cacheExchange, type KeyGenerator } from "@urql/exchange-graphcache";
import { Client, fetchExchange, mapExchange, subscriptionExchange, type CombinedError, type SubscriptionForwarder } from "@urql/core";
import { createClient as createSocket } from "graphql-ws";
import { onReached, reached, unreachable } from "../live/reach";
import { activeExchange, askAgain } from "./active";
import { distinctExchange } from "./distinct";
import { KEYLESS, TicketDocument } from "./generated";
import { refused } from "./session";
import { isUncached, UNCACHED, uncachedExchange } from "./uncached";

/** Says that the request comes from this page and not from a form of another site. */
export const CSRF = { "X-Towline-CSRF": "console" };

const SIGNED_OUT = 4401;
const NORMAL = 1000;
// graphql-ws ends a connection so for which there was no ticket: why not is told by what was asked for it.
const NO_TICKET = 4005;

/** A secret that opens one WebSocket: browsers put no headers into its request. Past the cache, which is no place for it. */
export async function ticket(): Promise<string> {
  const { data, error } = await client.mutation(TicketDocument, {}, UNCACHED).toPromise();
  if (data == null) throw error ?? new Error("no ticket was given");
  return data.createTicket;
}

let coming: Promise<string> | undefined;

/** Where the socket is opened; its ticket is asked for meanwhile. */
function socketUrl(): string {
  coming = ticket();
  // Whoever waits for it hears why it does not come.
  coming.catch(() => undefined);
  return `${location.protocol === "https:" ? "wss" : "ws"}://${location.host}/gql`;
}

const socket = createSocket({
  url: socketUrl,
  lazyCloseTimeout: 3000,
  connectionParams: async () => ({ token: await (coming ?? ticket()) }),
  retryAttempts: Number.POSITIVE_INFINITY,
  shouldRetry: () => true,
  // Full jitter, so that a restarted control plane is not met by all consoles at once.
  retryWait: (retries) => pause(Math.random() * Math.min(20_000, 500 * 2 ** retries)),
  keepAlive: 12_000,
  on: {
    connected: () => {
      reached();
      // What changed between the first answers and this moment was told to nobody.
      refresh();
    },
    closed: (event) => {
      const code = event instanceof CloseEvent ? event.code : 0;
      if (code === SIGNED_OUT) refused();
      else if (code !== NORMAL && code !== NO_TICKET) unreachable();
    },
  },
});

function pause(milliseconds: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, milliseconds));
}

const unkeyed: KeyGenerator = () => null;

// Their id is that of something else, or is not always told.
const BORROWED = ["AffectedService", "ComponentContent", "ComponentLive", "FleetMapRow", "FoundObject", "Place", "PlannedService", "PolicyBinding"];

// What has no id of its own is kept within what it belongs to.
const answers = cacheExchange({
  keys: Object.fromEntries([...KEYLESS, ...BORROWED].map((name) => [name, unkeyed])),
});

/** The server's code of a failure: `FORBIDDEN`, `NOT_FOUND`, …; empty if it did not answer. */
export function codeOf(error: CombinedError | undefined): string {
  const code = error?.graphQLErrors[0]?.extensions["code"];
  return typeof code === "string" ? code : "";
}

async function watchedFetch(input: RequestInfo | URL, init?: RequestInit): Promise<Response> {
  try {
    const response = await fetch(input, init);
    if (response.status < 500) reached();
    else unreachable();
    return response;
  } catch (error) {
    if (!(error instanceof DOMException && error.name === "AbortError")) unreachable();
    throw error;
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
        if (codeOf(error) === "UNAUTHENTICATED") refused();
      },
    }),
    activeExchange,
    distinctExchange,
    subscriptionExchange({ forwardSubscription, isSubscriptionOperation: (one) => one.kind === "subscription" && isUncached(one) }),
    uncachedExchange,
    answers,
    fetchExchange,
    subscriptionExchange({ forwardSubscription }),
  ],
});

/** After a sign-in: what is on the screen is asked for again, and nothing typed is lost. */
export const refresh = (): void => askAgain(client);

onReached(refresh);
