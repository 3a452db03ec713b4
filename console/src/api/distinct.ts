// The cache identifies operations by key, and two equal mutations have the same key: the second would never get a result.
import { makeOperation, type Exchange, type Operation, type OperationResult } from "@urql/core";
import { map, pipe } from "wonka";

/** Gives each mutation a unique key for the following exchanges, and its result the original key. */
export const distinctExchange: Exchange = ({ forward }) => {
  let last = 0;
  const withKey = (operation: Operation, key: number, context = operation.context) => makeOperation(operation.kind, { ...operation, key }, context);
  const separate = (operation: Operation) => (operation.kind === "mutation" ? withKey(operation, (last -= 1), { ...operation.context, originalKey: operation.key }) : operation);
  const restore = (result: OperationResult): OperationResult => {
    const key: unknown = result.operation.context["originalKey"];
    return typeof key === "number" ? { ...result, operation: withKey(result.operation, key) } : result;
  };
  return (operations) => pipe(operations, map(separate), forward, map(restore));
};
