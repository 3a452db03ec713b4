// The one connection to the control plane: queries over HTTP, changes over one WebSocket.
import { cacheExchange } from "@urql/exchange-graphcache";
import { Client, fetchExchange, subscriptionExchange } from "@urql/core";
import { createClient as createSocket } from "graphql-ws";
import { reached, unreachable } from "../live/reach";

/** Says that the request comes from this page and not from a form of another site. */
export const CSRF = { "X-Towline-Console": "1" };

const socketUrl = () => `${location.protocol === "https:" ? "wss" : "ws"}://${location.host}/gql`;

const socket = createSocket({
  url: socketUrl,
  retryAttempts: Number.POSITIVE_INFINITY,
  shouldRetry: () => true,
  // Full jitter, so that a restarted control plane is not met by all consoles at once.
  retryWait: (retries) => pause(Math.random() * Math.min(20_000, 500 * 2 ** retries)),
  keepAlive: 12_000,
  on: { connected: reached, closed: unreachable },
});

function pause(milliseconds: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, milliseconds));
}

const answers = cacheExchange({
  keys: {
    PageInfo: () => null,
    Tag: () => null,
    GitRef: () => null,
    ServiceError: () => null,
    ServiceRevision: () => null,
    Installation: () => null,
    StageService: () => null,
    PipelineEvent: () => null,
    GateApproval: () => null,
  },
});

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

export const client = new Client({
  url: "/gql",
  preferGetMethod: false,
  fetch: watchedFetch,
  fetchOptions: { credentials: "same-origin", headers: CSRF },
  requestPolicy: "cache-and-network",
  exchanges: [
    answers,
    fetchExchange,
    subscriptionExchange({
      forwardSubscription: (request) => ({
        subscribe: (sink) => ({
          unsubscribe: socket.subscribe(
            { ...request, query: request.query ?? "" },
            { ...sink, next: ({ data, errors }) => sink.next({ data: data ?? null, errors }) },
          ),
        }),
      }),
    }),
  ],
});
