// The cache knows operations by their keys, and the same change asked for twice has one: the second would never be answered.
import { makeOperation, type Exchange, type Operation, type OperationResult } from "@urql/core";
import { map, pipe } from "wonka";

/** Gives each change a key of its own for all that comes after; its answer has the key by which it was asked. */
export const distinctExchange: Exchange = ({ forward }) => {
  let last = 0;
  const keyed = (one: Operation, key: number, context = one.context) => makeOperation(one.kind, { ...one, key }, context);
  const apart = (one: Operation) => (one.kind === "mutation" ? keyed(one, (last -= 1), { ...one.context, askedAs: one.key }) : one);
  const told = (result: OperationResult): OperationResult => {
    const key: unknown = result.operation.context["askedAs"];
    return typeof key === "number" ? { ...result, operation: keyed(result.operation, key) } : result;
  };
  return (operations) => pipe(operations, map(apart), forward, map(told));
};
