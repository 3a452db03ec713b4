import { Client, gql, type Operation, type OperationResult } from "@urql/core";
import { filter, makeSubject, map, merge, mergeMap, pipe, subscribe } from "wonka";
import { beforeEach, expect, it } from "vitest";
import { orderedExchange } from "../src/api/ordered";

const READ = gql`
  query Service($id: ID!) {
    service(id: $id) {
      id
      state
    }
  }
`;
const WATCH = gql`
  subscription Watch {
    changed {
      id
      state
    }
  }
`;

const service = (state: string, id = "a") => ({ service: { id, state } });
let requests: ((data: unknown) => void)[] = [];
let say: (data: unknown) => void;
let seen: unknown[] = [];

/** A client whose server answers when the test says so. */
function client(): Client {
  const messages = makeSubject<unknown>();
  say = (data) => messages.next(data);
  const result = (operation: Operation, data: unknown) => ({ operation, data, stale: false, hasNext: false }) as OperationResult;
  const server = (operation: Operation) => {
    const answer = makeSubject<unknown>();
    if (operation.kind === "query") requests.push((data) => answer.next(data));
    return pipe(operation.kind === "query" ? answer.source : messages.source, map((data) => result(operation, data)));
  };
  return new Client({
    url: "/",
    preferGetMethod: false,
    requestPolicy: "network-only",
    exchanges: [orderedExchange, () => (operations) => pipe(merge([operations]), filter(({ kind }) => kind !== "teardown"), mergeMap(server))],
  });
}

beforeEach(() => {
  [requests, seen] = [[], []];
  const used = client();
  pipe(used.subscription(WATCH, {}), subscribe(({ data }) => seen.push(data)));
  pipe(used.query(READ, { id: "a" }), subscribe(({ data }) => seen.push(data)));
});

it("passes on a response that no message has overtaken", () => {
  say({ changed: { id: "b", state: "FAILED" } });
  requests[0]?.(service("HEALTHY"));
  expect(seen).toEqual([{ changed: { id: "b", state: "FAILED" } }, service("HEALTHY")]);
  expect(requests).toHaveLength(1);
});

it("asks again after a message about the same object", () => {
  say({ changed: { id: "a", state: "FAILED" } });
  requests[0]?.(service("HEALTHY"));
  expect(seen).toEqual([{ changed: { id: "a", state: "FAILED" } }]);
  requests[1]?.(service("FAILED"));
  expect(seen[1]).toEqual(service("FAILED"));
  expect(requests).toHaveLength(2);
});

it("shows an object that changes all the time", () => {
  for (let attempt = 0; attempt < 3; attempt += 1) {
    say({ changed: { id: "a", state: String(attempt) } });
    requests[attempt]?.(service("old"));
  }
  expect(requests).toHaveLength(3);
  expect(seen.at(-1)).toEqual(service("old"));
});
