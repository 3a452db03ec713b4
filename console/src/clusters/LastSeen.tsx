import { useQuery } from "urql";
import { LastSeenDocument } from "../api/generated";
import { LAST_SEEN_INTERVAL, useFollow } from "../live/useFollow";
import { Age } from "../ui/Age";
import { OFFLINE_AFTER } from "./offline";

type Props = { readonly cluster: { readonly id: string; readonly pingedAt: string | null } };

/** Age of the last message of a cluster's agent. Keeps the time of the whole page up to date. */
export function LastSeen({ cluster }: Props) {
  const [{ data }, refetch] = useQuery({ query: LastSeenDocument, variables: { id: cluster.id }, requestPolicy: "cache-first" });
  useFollow(refetch, LAST_SEEN_INTERVAL);
  return <Age at={data?.cluster?.pingedAt ?? cluster.pingedAt} staleAfter={OFFLINE_AFTER} />;
}
