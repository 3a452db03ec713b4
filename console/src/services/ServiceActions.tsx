import { useMutation } from "urql";
import { KickDocument, ReleaseDocument } from "../api/generated";
import { Problem } from "../ui/Problem";
import type { Service } from "./service";

/** What can be asked of a service at once. */
export function ServiceActions({ service }: { readonly service: Service }) {
  const [kicked, kick] = useMutation(KickDocument);
  const [released, release] = useMutation(ReleaseDocument);
  const error = kicked.error ?? released.error;
  return (
    <>
      {error !== undefined && <Problem error={error} />}
      {service.pinnedSha !== null && (
        <button type="button" disabled={released.fetching} onClick={() => void release({ id: service.id })}>
          Follow {service.git?.ref ?? "its branch"} again
        </button>
      )}
      <button type="button" disabled={kicked.fetching} onClick={() => void kick({ id: service.id })}>
        {kicked.fetching ? "Asking…" : "Sync now"}
      </button>
    </>
  );
}
