import { Link } from "wouter";
import { ResourceList } from "../manage/ResourceList";
import { DENIED_REVISIONS } from "./revisions";

/** Commits and digests that no service may apply. */
export function RevisionsPage() {
  return (
    <>
      <p className="crumbs">
        <Link href="/pipelines">Pipelines</Link>
      </p>
      <ResourceList kind={DENIED_REVISIONS} level={1} />
    </>
  );
}
