// Answers that one page needs for a while: the cache would keep every one of them, for as long as the console is open.
import { fetchExchange, type Exchange, type Operation } from "@urql/core";
import { empty, filter, merge, pipe, share } from "wonka";

/** The context of what is to be asked so. */
export const UNCACHED = { uncached: true };

export const isUncached = ({ context }: Operation): boolean => context["uncached"] === true;

/** Fetches what is not to be kept; everything else goes on. */
export const uncachedExchange: Exchange = (input) => {
  const fetched = fetchExchange({ ...input, forward: () => empty });
  return (operations) => {
    const shared = share(operations);
    const kept = pipe(
      shared,
      filter((one) => !isUncached(one)),
    );
    return merge([fetched(pipe(shared, filter(isUncached))), input.forward(kept)]);
  };
};
