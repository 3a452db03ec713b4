import { Link } from "wouter";
import { NothingYet } from "../access/NothingYet";

/** Empty state of an installation without clusters. */
export function NoClusters() {
  return (
    <NothingYet title="No clusters yet">
      <p>Install the agent with one Helm command. The agent connects out; the cluster needs no inbound access.</p>
      <Link className="button primary" href="/clusters/new">
        Register cluster
      </Link>
    </NothingYet>
  );
}
