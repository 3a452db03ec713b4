import { Link } from "wouter";
import type { ServiceRowFragment } from "../api/generated";
import { OFFLINE_AFTER } from "../clusters/offline";
import type { Column } from "../lists/List";
import { counted } from "../text/counts";
import { Age } from "../ui/Age";
import { serviceState } from "../ui/states";
import { Status } from "../ui/Status";

/** Why a service is not as it should be, in the words of `towline services list`; empty if it is. */
export function reasonFor({ errors, message, waiting, status, drifted, sha }: ServiceRowFragment): string {
  const [error] = errors;
  if (error !== undefined) return error.message;
  if (status === "DRIFTED") return `${counted(drifted, "object")} ${drifted === 1 ? "differs" : "differ"} from what was applied`;
  if (message !== null && message !== "") return message;
  if (waiting) return "waiting for dependencies to become healthy";
  return sha === null && status !== "HEALTHY" ? "no commit delivered yet" : "";
}

/** Columns of lists of services. */
export const SERVICE_COLUMNS: readonly Column<ServiceRowFragment>[] = [
  { id: "service", title: "Service", isLong: true, sort: ({ name }) => name, cell: ({ id, name }) => <Link href={`/services/${id}`}>{name}</Link> },
  { id: "cluster", title: "Cluster", isLong: true, sort: ({ cluster }) => cluster?.handle, cell: ({ cluster }) => cluster !== null && <Link href={`/clusters/${cluster.handle}`}>{cluster.handle}</Link> },
  { id: "namespace", title: "Namespace", isLong: true, sort: ({ namespace }) => namespace, cell: ({ namespace }) => namespace },
  { id: "state", title: "Status", sort: ({ status }) => serviceState(status).label, cell: ({ status, commitsBehind }) => <Status state={serviceState(status, commitsBehind)} pill /> },
  { id: "reason", title: "Reason", isLong: true, cell: reasonFor },
  { id: "commit", title: "Commit", sort: ({ sha }) => sha, cell: ({ sha }) => <code>{sha?.slice(0, 8) ?? "–"}</code> },
  { id: "behind", title: "Commits behind", isOptional: true, className: "number", sort: ({ commitsBehind }) => commitsBehind, cell: ({ commitsBehind }) => commitsBehind?.toLocaleString() },
  { id: "drifted", title: "Drifted objects", isOptional: true, className: "number", sort: ({ drifted }) => drifted, cell: ({ drifted }) => drifted.toLocaleString() },
  { id: "changed", title: "Changed", sort: ({ updatedAt }) => updatedAt, cell: ({ updatedAt }) => <Age at={updatedAt} /> },
  { id: "reported", title: "Last report", isOptional: true, sort: ({ observedAt }) => observedAt, cell: ({ observedAt }) => <Age at={observedAt} /> },
  { id: "seen", title: "Last seen", sort: ({ cluster }) => cluster?.pingedAt, cell: ({ cluster }) => <Age at={cluster?.pingedAt ?? null} staleAfter={OFFLINE_AFTER} never="never connected" /> },
];
