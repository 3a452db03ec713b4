import { Link } from "wouter";
import type { ServiceRowFragment } from "../api/generated";
import { OFFLINE_AFTER } from "../clusters/offline";
import type { Column } from "../lists/List";
import { Age } from "../ui/Age";
import { serviceState } from "../ui/states";
import { Status } from "../ui/Status";

const reasonFor = ({ errors, message, waiting }: ServiceRowFragment): string => errors[0]?.message ?? message ?? (waiting ? "waiting for dependencies to become healthy" : "");

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
