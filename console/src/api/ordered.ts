// A response can be older than a message that arrived while it was under way, and would overwrite it in the cache.
import type { Exchange, Operation, OperationResult } from "@urql/core";
import { filter, makeSubject, merge, pipe, tap } from "wonka";

// A long list in a busy fleet always has an object that changes: it must not be fetched for ever.
const MAX_REPETITIONS = 2;

/** Requests of one query: number of messages before the first one, requests without a response, and repetitions. */
type Requests = { readonly began: number; readonly open: number; readonly repeated: number };

/** Calls `visit` with the id of each object in a result until it returns true. */
function someId(value: unknown, visit: (id: string) => boolean): boolean {
  if (Array.isArray(value)) return value.some((item) => someId(item, visit));
  if (typeof value !== "object" || value === null) return false;
  if ("id" in value && typeof value.id === "string" && visit(value.id)) return true;
  return Object.values(value).some((item) => someId(item, visit));
}

/**
 * Sends a query again, instead of passing on its response, if a message about one of its objects arrived meanwhile.
 * Messages are those of subscriptions, and the responses to mutations.
 */
export const orderedExchange: Exchange = ({ forward }) => {
  const again = makeSubject<Operation>();
  const underWay = new Map<number, Requests>();
  // Number of the last message about an object.
  const changed = new Map<string, number>();
  let messages = 0;

  const onOperation = ({ kind, key }: Operation): void => {
    if (kind === "teardown") underWay.delete(key);
    if (kind !== "query") return;
    const { began, open, repeated } = underWay.get(key) ?? { began: messages, open: 0, repeated: 0 };
    underWay.set(key, { began, open: open + 1, repeated });
  };
  const onMessage = (data: unknown): void => {
    messages += 1;
    if (underWay.size === 0) changed.clear();
    else
      someId(data, (id) => {
        changed.set(id, messages);
        return false;
      });
  };
  const isCurrent = ({ operation, data }: OperationResult): boolean => {
    if (operation.kind !== "query") onMessage(data);
    const requests = underWay.get(operation.key);
    if (operation.kind !== "query" || requests === undefined) return true;
    const { began, open, repeated } = requests;
    const isOld = messages > began && repeated < MAX_REPETITIONS && someId(data, (id) => (changed.get(id) ?? 0) > began);
    if (isOld) {
      underWay.set(operation.key, { began: open === 1 ? messages : began, open, repeated: repeated + 1 });
      again.next(operation);
    } else if (open === 1) {
      underWay.delete(operation.key);
    } else {
      underWay.set(operation.key, { began, open: open - 1, repeated });
    }
    return !isOld;
  };

  return (operations) => pipe(merge([pipe(operations, tap(onOperation)), again.source]), forward, filter(isCurrent));
};
