import { useMutation } from "urql";
import { SyncServiceDocument, ReleaseDocument, UpdateServiceDocument } from "../api/generated";
import { isOffline } from "../clusters/offline";
import { useNow } from "../live/clock";
import { Age } from "../ui/Age";
import { Problem } from "../ui/Problem";
import { toast } from "../ui/toast";
import { inverseOf, type Done } from "../undo/inverses";
import type { Service } from "./service";

/** The time of a requested sync until the agent has ended it. */
function RequestedSync({ service: { syncRequestedAt, cluster } }: { readonly service: Service }) {
  const now = useNow();
  if (syncRequestedAt === null) return null;
  const isAway = cluster !== null && isOffline(cluster.pingedAt, now);
  return (
    <span className="quiet">
      sync requested <Age at={syncRequestedAt} />
      {isAway && "; it starts when the agent connects"}
    </span>
  );
}

/** Buttons of the service page. */
export function ServiceActions({ service }: { readonly service: Service }) {
  const [kicked, kick] = useMutation(SyncServiceDocument);
  const [released, release] = useMutation(ReleaseDocument);
  const [updated, update] = useMutation(UpdateServiceDocument);
  const error = kicked.error ?? released.error ?? updated.error;
  const say = (text: string) => (result: Done) => result.error === undefined && toast(text, inverseOf(result, service));
  return (
    <>
      <RequestedSync service={service} />
      {service.pinnedSha !== null && !service.promoted && (
        <button type="button" disabled={released.fetching} onClick={() => void release({ id: service.id }).then(say("Service unpinned"))}>
          Unpin and follow {service.follows ?? "its branch"}
        </button>
      )}
      <button
        type="button"
        disabled={updated.fetching}
        onClick={() => void update({ id: service.id, attributes: { paused: !service.paused } }).then(say(service.paused ? "Service resumed" : "Service suspended"))}
      >
        {service.paused ? "Resume" : "Suspend"}
      </button>
      <button type="button" className="primary" disabled={kicked.fetching} onClick={() => void kick({ id: service.id }).then(say("Sync started"))}>
        {kicked.fetching ? "Syncing…" : "Sync now"}
      </button>
      {error !== undefined && <Problem error={error} />}
    </>
  );
}
