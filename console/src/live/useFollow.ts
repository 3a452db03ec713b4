// Fetches a query again at an interval, for values that change without an event.
import { useEffect } from "react";
import type { OperationContext } from "urql";

/** Agents report at least every 15 s, and the control plane sends no event for it. Milliseconds. */
export const LAST_SEEN_INTERVAL = 20_000;

/** Fetches a query again every `interval` milliseconds; null: never. */
export function useFollow(refetch: (options?: Partial<OperationContext>) => void, interval: number | null): void {
  useEffect(() => {
    if (interval === null) return undefined;
    const timer = setInterval(() => refetch({ requestPolicy: "network-only" }), interval);
    return () => clearInterval(timer);
  }, [refetch, interval]);
}
