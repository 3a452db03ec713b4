import { useMutation, useQuery } from "urql";
import { EndStreamDocument, OpenStreamsDocument } from "../api/generated";
import { counted } from "../text/counts";
import { Age } from "../ui/Age";
import { Problem } from "../ui/Problem";
import { Skeleton } from "../ui/Skeleton";
import { STATES } from "../ui/states";
import { Status } from "../ui/Status";
import { Table } from "../ui/Table";
import { toast } from "../ui/toast";

/** Open requests through the Kubernetes proxy, such as watches and shells; each can be ended. */
export function ActiveSessions({ handle }: { readonly handle: string }) {
  const [{ data, error }, refetch] = useQuery({ query: OpenStreamsDocument, variables: { cluster: handle }, requestPolicy: "network-only" });
  const [ended, end] = useMutation(EndStreamDocument);
  if (error !== undefined && data == null) return <Problem error={error} />;
  if (data == null) return <Skeleton lines={4} />;
  const { nodes, silent } = data.openStreams;
  const stop = async (id: string) => {
    const result = await end({ id });
    if (result.error === undefined) toast("Session ended; its user sees who ended it");
    refetch({ requestPolicy: "network-only" });
  };
  return (
    <>
      {ended.error !== undefined && <Problem error={ended.error} />}
      {silent.length > 0 && <p className="status warn">{counted(silent.length, "replica")} did not answer; the list lacks their sessions.</p>}
      {nodes.length === 0 ? (
        <p className="quiet">No active sessions.</p>
      ) : (
        <Table label="Active sessions" titles={["Started", "User", "Request", "Source", "Bytes in", "Bytes out", ""]} numbers={["Bytes in", "Bytes out"]}>
          {nodes.map((session) => (
            <tr key={session.id}>
              <td>
                <Age at={session.since} />
              </td>
              <td>
                {session.user} {session.actingAs !== "" && session.actingAs !== session.user && <span className="quiet">as {session.actingAs}</span>}
              </td>
              <td className="wide">
                <code>{session.what}</code> {session.recorded && <Status state={STATES.recorded} />}
              </td>
              <td>{session.source}</td>
              <td className="number">{session.bytesIn.toLocaleString()}</td>
              <td className="number">{session.bytesOut.toLocaleString()}</td>
              <td>
                <button type="button" onClick={() => void stop(session.id)}>
                  End session
                </button>
              </td>
            </tr>
          ))}
        </Table>
      )}
    </>
  );
}
