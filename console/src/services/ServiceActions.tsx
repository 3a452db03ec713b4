import { useMutation } from "urql";
import { KickDocument, ReleaseDocument, UpdateServiceDocument } from "../api/generated";
import { Problem } from "../ui/Problem";
import { toast } from "../ui/toast";
import type { Service } from "./service";

/** What can be asked of a service at once. */
export function ServiceActions({ service }: { readonly service: Service }) {
  const [kicked, kick] = useMutation(KickDocument);
  const [released, release] = useMutation(ReleaseDocument);
  const [updated, update] = useMutation(UpdateServiceDocument);
  const error = kicked.error ?? released.error ?? updated.error;
  const say = (text: string) => (result: { readonly error?: unknown }) => result.error === undefined && toast(text);
  return (
    <>
      {service.pinnedSha !== null && !service.promoted && (
        <button type="button" disabled={released.fetching} onClick={() => void release({ id: service.id }).then(say("It follows its branch again."))}>
          Follow {service.git?.ref ?? "its branch"} again
        </button>
      )}
      <button
        type="button"
        disabled={updated.fetching}
        onClick={() => void update({ id: service.id, attributes: { paused: !service.paused } }).then(say(service.paused ? "It goes on." : "It is paused."))}
      >
        {service.paused ? "Go on" : "Pause"}
      </button>
      <button type="button" className="primary" disabled={kicked.fetching} onClick={() => void kick({ id: service.id }).then(say("Commits and cluster are looked at now."))}>
        {kicked.fetching ? "Asking…" : "Sync now"}
      </button>
      {error !== undefined && <Problem error={error} />}
    </>
  );
}
