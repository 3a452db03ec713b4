import { useQuery } from "urql";
import { Link } from "wouter";
import { ClusterSourceMembersDocument, type ClusterSourceMembersQuery, type ClusterSourceMemberState, type ClusterSourceRowFragment } from "../api/generated";
import { Command } from "../manage/Command";
import { Facts } from "../manage/Facts";
import { commandLine, pairWords } from "../manage/values";
import { Age } from "../ui/Age";
import { Problem } from "../ui/Problem";
import { Skeleton } from "../ui/Skeleton";
import { STATES, type State } from "../ui/states";
import { Status } from "../ui/Status";
import { Table } from "../ui/Table";

type Member = NonNullable<ClusterSourceMembersQuery["clusterSource"]>["members"]["edges"][number]["node"];

const MEMBER_STATES: Readonly<Record<ClusterSourceMemberState, State>> = {
  REFUSED: STATES.notRegistered,
  PROVISIONING: STATES.pending,
  JOINING: STATES.waitingForAgent,
  AWAITING_AGENT: STATES.waitingForAgent,
  CONNECTED: STATES.connected,
  REMOVED: STATES.removed,
  GONE: STATES.gone,
};

const REASONS: Readonly<Partial<Record<ClusterSourceMemberState, string>>> = {
  PROVISIONING: "the control plane is not initialized",
  AWAITING_AGENT: "install one",
  REMOVED: "a user deleted the cluster",
  GONE: "the object was deleted",
};

function Row({ member }: { readonly member: Member }) {
  const { namespace, name, state, message, cluster, version, properties } = member;
  return (
    <tr>
      <td>
        {namespace}/{name}
      </td>
      <td>
        <Status state={MEMBER_STATES[state]} detail={REASONS[state] ?? ""} />
      </td>
      <td>{cluster === null ? "–" : <Link href={`/clusters/${cluster}`}>{cluster}</Link>}</td>
      <td>{version ?? "–"}</td>
      <td className="wide">{properties.map((property) => `${property.name}=${property.value}`).join(", ")}</td>
      <td className="wide">
        {message}
        {state === "AWAITING_AGENT" && cluster !== null && <Command text={commandLine(["clusters", "join", cluster, "--print", "--adopt"])} />}
      </td>
    </tr>
  );
}

/** Mounted anew after each reconciliation, which changes the objects. */
function Members({ id }: { readonly id: string }) {
  const [{ data, error }] = useQuery({ query: ClusterSourceMembersDocument, variables: { id }, requestPolicy: "cache-and-network" });
  if (error !== undefined && data == null) return <Problem error={error} />;
  if (data?.clusterSource == null) return <Skeleton lines={3} />;
  const { edges, totalCount } = data.clusterSource.members;
  if (edges.length === 0) return <p className="quiet">No objects match.</p>;
  const hidden = (totalCount ?? edges.length) - edges.length;
  return (
    <>
      <Table label="Objects" titles={["Object", "State", "Cluster", "Kubernetes", "Properties", "Problem"]}>
        {edges.map(({ node }) => (
          <Row key={node.id} member={node} />
        ))}
      </Table>
      {hidden > 0 && <p className="quiet">and {hidden.toLocaleString("en")} more</p>}
    </>
  );
}

/** Settings, state and objects of a cluster source. */
export function SourceMembers({ source }: { readonly source: ClusterSourceRowFragment }) {
  return (
    <>
      {source.message !== null && <p>{source.message}</p>}
      <Facts
        facts={[
          ["Management cluster", source.cluster === null ? null : <Link href={`/clusters/${source.cluster}`}>{source.cluster}</Link>],
          ["Service account", source.serviceAccount],
          ["Project", source.project?.name],
          ["Names", <code key="names">{source.nameTemplate}</code>],
          ["Tags", pairWords(source.tags).join(", ")],
          ["Labels that become tags", source.tagLabels.join(", ")],
          ["Deleted objects", source.gone === "KEEP" ? "the cluster stays registered" : `the cluster is removed, at most ${String(source.maxDeletions)} at a time`],
          ["Maximum number of clusters", source.maxClusters.toLocaleString("en")],
          ["Checked", source.checkedAt === null ? null : <Age at={source.checkedAt} />],
        ]}
      />
      <Members key={source.checkedAt} id={source.id} />
    </>
  );
}
