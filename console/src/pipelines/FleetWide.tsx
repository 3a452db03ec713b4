import { useState } from "react";
import { useQuery } from "urql";
import { FleetDiffDocument, RepositoryOfDocument, type FleetDiffQuery } from "../api/generated";
import { Changes } from "../services/Changes";
import { Problem } from "../ui/Problem";
import { Skeleton } from "../ui/Skeleton";

type Group = FleetDiffQuery["fleetDiff"]["groups"][number];

const MOST_NAMES = 8;

function GroupOfServices({ group }: { readonly group: Group }) {
  const names = group.services.map(({ cluster, name }) => `${cluster}/${name}`);
  return (
    <details>
      <summary>
        <strong>{names.length}</strong> {names.length === 1 ? "service" : "services"}: {names.slice(0, MOST_NAMES).join(", ")}
        {names.length > MOST_NAMES && ` and ${names.length - MOST_NAMES} more`}{" "}
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
  const { looked, untouched, groups, more } = data.fleetDiff;
  return (
    <div className="stack">
      <p>
        Of {looked} {looked === 1 ? "service" : "services"} {serviceIds === null ? "from this repository that no pipeline moves" : "that this is about"}, {looked - untouched} would change.
        {groups.length > 1 && " Those that change alike stand together."}
      </p>
      {groups.map((group, index) => (
        <GroupOfServices key={index} group={group} />
      ))}
      {more > 0 && <p className="quiet">and {more} groups more</p>}
    </div>
  );
}

type Props = {
  readonly title: string;
  /** One of the services that have the commit, by which its repository is found. */
  readonly serviceId: string;
  readonly sha: string;
  /** Only these services, whatever moves them; null: all that follow the repository by themselves. */
  readonly serviceIds: readonly string[] | null;
};

/** What a commit would change in many services at once. */
export function FleetWide({ title, serviceId, sha, serviceIds }: Props) {
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
