import { useMutation, useQuery } from "urql";
import { EndStreamDocument, OpenStreamsDocument } from "../api/generated";
import { Age } from "../ui/Age";
import { Problem } from "../ui/Problem";
import { Skeleton } from "../ui/Skeleton";
import { Status } from "../ui/Status";
import { Table } from "../ui/Table";
import { toast } from "../ui/toast";

/** Requests that are open now: who is looking, watching, or has a shell; any can be ended. */
export function Streams({ handle }: { readonly handle: string }) {
  const [{ data, error }, again] = useQuery({ query: OpenStreamsDocument, variables: { cluster: handle }, requestPolicy: "network-only" });
  const [ended, end] = useMutation(EndStreamDocument);
  if (error !== undefined && data == null) return <Problem error={error} />;
  if (data == null) return <Skeleton lines={4} />;
  const { nodes, silent } = data.openStreams;
  const stop = async (id: string) => {
    const result = await end({ id });
    if (result.error === undefined) toast("The request is ended; its user is told by whom.");
    again({ requestPolicy: "network-only" });
  };
  return (
    <>
      {ended.error !== undefined && <Problem error={ended.error} />}
      {silent.length > 0 && <p className="status warn">{silent.length} replicas did not answer: their requests are not listed.</p>}
      {nodes.length === 0 ? (
        <p className="quiet">No request to this cluster is open now.</p>
      ) : (
        <Table label="Open requests" titles={["Since", "User", "What", "From", "In", "Out", ""]}>
          {nodes.map((one) => (
            <tr key={one.id}>
              <td>
                <Age at={one.since} />
              </td>
              <td>
                {one.user} {one.actingAs !== "" && one.actingAs !== one.user && <span className="quiet">as {one.actingAs}</span>}
              </td>
              <td className="wide">
                <code>{one.what}</code> {one.recorded && <Status tone="warn">recorded</Status>}
              </td>
              <td>{one.source}</td>
              <td className="number">{one.bytesIn.toLocaleString()}</td>
              <td className="number">{one.bytesOut.toLocaleString()}</td>
              <td>
                <button type="button" onClick={() => void stop(one.id)}>
                  End
                </button>
              </td>
            </tr>
          ))}
        </Table>
      )}
    </>
  );
}
