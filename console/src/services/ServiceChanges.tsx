import { useQuery } from "urql";
import { codeOf } from "../api/client";
import { ServiceChangesDocument } from "../api/generated";
import { Problem } from "../ui/Problem";
import { Skeleton } from "../ui/Skeleton";
import { Changes } from "./Changes";

type Props = {
  readonly serviceId: string;
  /** A branch, tag or commit; or else a digest that the service once had. */
  readonly gitRef?: string;
  readonly digest?: string;
  /** What the ref has to come to: it is said if it does not. */
  readonly expected?: string;
};

/** What a ref, or a digest that it once had, would make of a service. */
export function ServiceChanges({ serviceId, gitRef, digest, expected }: Props) {
  const variables = { id: serviceId, ref: gitRef ?? null, newDigest: digest ?? null };
  const [{ data, error, fetching }] = useQuery({ query: ServiceChangesDocument, variables });
  if (codeOf(error) === "NOT_FOUND") return <p className="quiet">{gitRef === undefined ? "What it was then is not kept any more." : `Its repository has no ${gitRef}.`}</p>;
  if (error !== undefined && data == null) return <Problem error={error} />;
  if (data == null || fetching) return <Skeleton lines={4} />;
  const { added, removed, changed, objects, newDigest } = data.serviceDiff;
  return (
    <div className="stack">
      {expected !== undefined && newDigest !== expected && <p className="status bad">By now it comes to {newDigest.slice(0, 23)}…: this approval would not let that in.</p>}
      <p>
        <strong>{added}</strong> added, <strong>{changed}</strong> changed, <strong>{removed}</strong> removed
      </p>
      <Changes objects={objects} />
    </div>
  );
}
