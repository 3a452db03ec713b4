import { useQuery } from "urql";
import { codeOf } from "../api/client";
import { ServiceChangesDocument } from "../api/generated";
import { Problem } from "../ui/Problem";
import { Skeleton } from "../ui/Skeleton";
import { Changes } from "./Changes";

type Props = { readonly serviceId: string; readonly gitRef?: string; readonly digest?: string };

/** What a ref, or a digest that it once had, would make of a service. */
export function ServiceChanges({ serviceId, gitRef, digest }: Props) {
  const variables = { id: serviceId, ref: gitRef ?? null, newDigest: digest ?? null };
  const [{ data, error, fetching }] = useQuery({ query: ServiceChangesDocument, variables });
  if (codeOf(error) === "NOT_FOUND") return <p className="quiet">There is nothing to compare it with yet: all of it would be new.</p>;
  if (error !== undefined && data == null) return <Problem error={error} />;
  if (data == null || fetching) return <Skeleton lines={4} />;
  const { added, removed, changed, objects } = data.serviceDiff;
  return (
    <div className="stack">
      <p>
        <strong>{added}</strong> added, <strong>{changed}</strong> changed, <strong>{removed}</strong> removed
      </p>
      <Changes objects={objects} />
    </div>
  );
}
