import { Link } from "wouter";
import { Empty } from "../ui/Empty";

/** Empty state of the pipelines. */
export function NoPipelines({ isFiltered }: { readonly isFiltered: boolean }) {
  if (isFiltered) return <Empty title="No matching pipelines">Change or clear the filter.</Empty>;
  return (
    <Empty title="No pipelines yet">
      <p>A pipeline promotes a release from stage to stage. Gates between stages wait for approvals, checks or time.</p>
      <Link className="button primary" href="/pipelines/new">
        Create pipeline
      </Link>
    </Empty>
  );
}
