// Number of items that wait for the user, for the navigation and the title of the window.
import { useEffect } from "react";
import { useQuery } from "urql";
import { InboxTotalDocument } from "../api/generated";
import { useFollow } from "../live/useFollow";

/** Interval in milliseconds at which the inbox is fetched again. */
export const INBOX_INTERVAL = 15_000;

/** Number of items such as `3`; empty without items. */
export function useInboxTotal(): string {
  const [{ data }, refetch] = useQuery({ query: InboxTotalDocument });
  useFollow(refetch, INBOX_INTERVAL);
  useEffect(() => {
    const onReturn = () => document.visibilityState === "visible" && refetch({ requestPolicy: "network-only" });
    document.addEventListener("visibilitychange", onReturn);
    return () => document.removeEventListener("visibilitychange", onReturn);
  }, [refetch]);
  // A query that failed has no data.
  const total = data?.inbox.total ?? 0;
  return total === 0 ? "" : total.toLocaleString();
}
