// Which queries are on the screen, so that they can be asked again after an outage or a sign-in.
import { makeOperation, type Client, type Exchange, type Operation } from "@urql/core";
import { tap, pipe } from "wonka";

const active = new Map<number, Operation>();

/** Notes queries while somebody looks at their answers. */
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

/** Ask everything that is on the screen again. */
export function askAgain(client: Client): void {
  for (const operation of active.values())
    client.reexecuteOperation(
      makeOperation(operation.kind, operation, { ...operation.context, requestPolicy: "network-only" }),
    );
}
