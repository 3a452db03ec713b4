import { useQuery } from "urql";
import { codeOf } from "../api/client";
import { ServiceChangesDocument } from "../api/generated";
import { Problem } from "../ui/Problem";
import { Skeleton } from "../ui/Skeleton";
import { Changes } from "./Changes";

type Props = {
  readonly serviceId: string;
  /** Branch, tag or commit; without it, `digest` selects an earlier revision. */
  readonly gitRef?: string;
  readonly digest?: string;
  /** Digest to compare with; without it, the desired one. */
  readonly from?: string;
  /** Digest that was approved; a warning appears if the ref now renders to another one. */
  readonly expected?: string;
};

/** Changes that a ref or an earlier digest would make to a service. */
export function ServiceChanges({ serviceId, gitRef, digest, from, expected }: Props) {
  const variables = { id: serviceId, ref: gitRef ?? null, newDigest: digest ?? null, oldDigest: from ?? null };
  const [{ data, error, fetching }] = useQuery({ query: ServiceChangesDocument, variables });
  if (codeOf(error) === "NOT_FOUND") return <p className="quiet">{gitRef === undefined ? "The manifests of this revision are no longer stored." : `Revision ${gitRef} not found in the repository.`}</p>;
  if (error !== undefined && data == null) return <Problem error={error} />;
  if (data == null || fetching) return <Skeleton lines={4} />;
  const { added, removed, changed, objects, newDigest } = data.serviceDiff;
  return (
    <div className="stack">
      {expected !== undefined && newDigest !== expected && <p className="status bad">This revision now renders to {newDigest.slice(0, 23)}…; the approval would not cover it.</p>}
      <p>
        <strong>{added}</strong> added, <strong>{changed}</strong> changed, <strong>{removed}</strong> removed
      </p>
      <Changes objects={objects} />
    </div>
  );
}
