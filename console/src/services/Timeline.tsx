import { useQuery } from "urql";
import { TimelineDocument } from "../api/generated";
import { Age } from "../ui/Age";
import { Problem } from "../ui/Problem";
import { Skeleton } from "../ui/Skeleton";

/** The ledger of a service, newest first: how far each commit has come, and when. */
export function Timeline({ serviceId }: { readonly serviceId: string }) {
  const [{ data, error }] = useQuery({ query: TimelineDocument, variables: { id: serviceId } });
  if (error !== undefined && data === undefined) return <Problem error={error} />;
  if (data === undefined) return <Skeleton lines={8} />;
  return (
    <ol className="timeline">
      {data.ledger.edges.map(({ node }) => (
        <li key={node.id}>
          <Age at={node.at} />
          <strong>{node.stage}</strong>
          <code>{node.sha?.slice(0, 8)}</code>
          <span>{node.message}</span>
          <span className="quiet">{node.actor}</span>
        </li>
      ))}
    </ol>
  );
}
