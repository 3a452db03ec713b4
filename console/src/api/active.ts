// Active queries of the page, which are fetched again after an outage or a sign-in.
import { makeOperation, type Client, type Exchange, type Operation } from "@urql/core";
import { tap, pipe } from "wonka";

const active = new Map<number, Operation>();

/** Tracks queries while a component uses them. */
export const activeExchange: Exchange =
  ({ forward }) =>
  (operations) =>
    forward(
      pipe(
        operations,
        tap((operation) => {
          if (operation.kind === "query") active.set(operation.key, operation);
          if (operation.kind === "teardown") active.delete(operation.key);
        }),
      ),
    );

/** Fetches all active queries again. */
export function refetchActive(client: Client): void {
  for (const operation of active.values())
    client.reexecuteOperation(
      makeOperation(operation.kind, operation, { ...operation.context, requestPolicy: "network-only" }),
    );
}
