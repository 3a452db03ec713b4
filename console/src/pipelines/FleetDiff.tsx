import { useState } from "react";
import { useQuery } from "urql";
import { FleetDiffDocument, RepositoryOfDocument, type FleetDiffQuery } from "../api/generated";
import { Changes } from "../services/Changes";
import { counted } from "../text/counts";
import { Problem } from "../ui/Problem";
import { Skeleton } from "../ui/Skeleton";

type Group = FleetDiffQuery["fleetDiff"]["groups"][number];

const MAX_NAMES = 8;

function GroupOfServices({ group }: { readonly group: Group }) {
  const names = group.services.map(({ cluster, name }) => `${cluster}/${name}`);
  return (
    <details>
      <summary>
        <strong>{counted(names.length, "service")}</strong>: {names.slice(0, MAX_NAMES).join(", ")}
        {names.length > MAX_NAMES && ` and ${names.length - MAX_NAMES} more`}{" "}
        <span className="quiet">
          +{group.added} ~{group.changed} −{group.removed}
        </span>
      </summary>
      {group.error !== null ? <p className="status bad">{group.error}</p> : <Changes objects={group.objects} />}
    </details>
  );
}

type DiffProps = { readonly repositoryId: string; readonly sha: string; readonly serviceIds: readonly string[] | null };

function Diff({ repositoryId, sha, serviceIds }: DiffProps) {
  const variables = { repositoryId, ref: sha, serviceIds: serviceIds === null ? null : [...serviceIds] };
  const [{ data, error }] = useQuery({ query: FleetDiffDocument, variables });
  if (error !== undefined && data == null) return <Problem error={error} />;
  if (data == null) return <Skeleton lines={3} />;
  const { compared, unchanged, groups, more } = data.fleetDiff;
  return (
    <div className="stack">
      <p>
        {compared - unchanged} of {counted(compared, "service")} {serviceIds === null ? "from this repository outside pipelines" : "in this stage"} would change.
        {groups.length > 1 && " Services with the same changes are grouped."}
      </p>
      {groups.map((group, index) => (
        <GroupOfServices key={index} group={group} />
      ))}
      {more > 0 && <p className="quiet">and {counted(more, "more group")}</p>}
    </div>
  );
}

type Props = {
  readonly title: string;
  /** Service that has the commit; its repository is used. */
  readonly serviceId: string;
  readonly sha: string;
  /** Services to compare; null: all services of the repository outside pipelines. */
  readonly serviceIds: readonly string[] | null;
};

/** Changes that a commit would make in many services. */
export function FleetDiff({ title, serviceId, sha, serviceIds }: Props) {
  const [isOpen, open] = useState(true);
  const [{ data, error }] = useQuery({ query: RepositoryOfDocument, variables: { id: serviceId }, pause: !isOpen });
  const repository = data?.serviceDeployment?.repository;
  return (
    <details className="fleet-wide" open={isOpen} onToggle={(event) => open(event.currentTarget.open)}>
      <summary>{title}</summary>
      {error !== undefined && data == null && <Problem error={error} />}
      {isOpen && repository == null && error === undefined && <Skeleton lines={2} />}
      {isOpen && repository != null && <Diff repositoryId={repository.id} sha={sha} serviceIds={serviceIds} />}
    </details>
  );
}
