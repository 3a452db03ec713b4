import { useQuery } from "urql";
import { Link } from "wouter";
import { RepositoryCheckDocument, type RepositoryRowFragment } from "../api/generated";
import { useFollow } from "../live/useFollow";
import { STATES } from "../ui/states";
import { Status } from "../ui/Status";

const FOLLOW = 1_000;

type Props = { readonly id: string; readonly onEdit: (repository: RepositoryRowFragment) => void; readonly onClose: () => void };

/** Result of the first fetch of a saved repository, with the next step. */
export function RepositoryCheck({ id, onEdit, onClose }: Props) {
  const [{ data }, refetch] = useQuery({ query: RepositoryCheckDocument, variables: { id }, requestPolicy: "network-only" });
  const repository = data?.gitRepository ?? null;
  const isWaiting = repository === null || (repository.health === null && repository.error === null);
  useFollow(refetch, isWaiting ? FOLLOW : null);
  const isReachable = repository?.health === "PULLABLE";
  return (
    <section className="card stack" aria-live="polite" aria-label="Connection test">
      <h2>Connection test</h2>
      {isWaiting && <Status state={STATES.running} detail="the control plane contacts the server" />}
      {!isWaiting && (
        <>
          <p>
            <Status state={isReachable ? STATES.connected : STATES.failed} /> {repository.url}
          </p>
          {repository.error !== null && <p>{repository.error}</p>}
          <div className="bar">
            {isReachable ? (
              <Link className="button primary" href={`/services/new?repository=${encodeURIComponent(repository.url)}`}>
                Create service
              </Link>
            ) : (
              <button type="button" className="primary" onClick={() => onEdit(repository)}>
                Edit repository
              </button>
            )}
            <button type="button" onClick={onClose}>
              Close
            </button>
          </div>
        </>
      )}
    </section>
  );
}
