import { Link } from "wouter";
import { Empty } from "../ui/Empty";

/** An installation that nothing has joined yet, and how something does. */
export function NoClusters() {
  return (
    <Empty title="No clusters yet">
      <p>A cluster joins by one command that is run in it. Nothing has to reach into it.</p>
      <Link className="button primary" href="/clusters/new">
        Join the first cluster
      </Link>
    </Empty>
  );
}
