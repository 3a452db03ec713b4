// Bypasses the cache for large, short-lived results, which it would keep while the console is open.
import { fetchExchange, type Exchange, type Operation } from "@urql/core";
import { empty, filter, merge, pipe, share } from "wonka";

/** Context of a query that bypasses the cache. */
export const UNCACHED = { uncached: true };

export const isUncached = ({ context }: Operation): boolean => context["uncached"] === true;

/** Fetches uncached queries; forwards all others. */
export const uncachedExchange: Exchange = (input) => {
  const fetched = fetchExchange({ ...input, forward: () => empty });
  return (operations) => {
    const shared = share(operations);
    const kept = pipe(
      shared,
      filter((operation) => !isUncached(operation)),
    );
    return merge([fetched(pipe(shared, filter(isUncached))), input.forward(kept)]);
  };
};
