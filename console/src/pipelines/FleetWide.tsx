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

function Diff({ repositoryId, sha }: { readonly repositoryId: string; readonly sha: string }) {
  const [{ data, error }] = useQuery({ query: FleetDiffDocument, variables: { repositoryId, ref: sha } });
  if (error !== undefined && data == null) return <Problem error={error} />;
  if (data == null) return <Skeleton lines={3} />;
  const { looked, untouched, groups, more } = data.fleetDiff;
  return (
    <div className="stack">
      <p>
        Of {looked} {looked === 1 ? "service" : "services"} from this repository, {looked - untouched} would change.
        {groups.length > 1 && " Those that change alike stand together."}
      </p>
      {groups.map((group, index) => (
        <GroupOfServices key={index} group={group} />
      ))}
      {more > 0 && <p className="quiet">and {more} groups more</p>}
    </div>
  );
}

/** What a commit would change in every service that comes from its repository. */
export function FleetWide({ serviceId, sha }: { readonly serviceId: string; readonly sha: string }) {
  const [isOpen, open] = useState(true);
  const [{ data }] = useQuery({ query: RepositoryOfDocument, variables: { id: serviceId }, pause: !isOpen });
  const repository = data?.serviceDeployment?.repository;
  return (
    <details className="fleet-wide" open={isOpen} onToggle={(event) => open(event.currentTarget.open)}>
      <summary>What this commit would change in the whole fleet</summary>
      {isOpen && (repository == null ? <Skeleton lines={2} /> : <Diff repositoryId={repository.id} sha={sha} />)}
    </details>
  );
}
