import { Link } from "wouter";
import { ResourceList } from "../manage/ResourceList";
import { HELM_REPOSITORIES } from "./helm";

/** Helm and OCI repositories. */
export function ChartsPage() {
  return (
    <>
      <p className="crumbs">
        <Link href="/repositories">Repositories</Link>
      </p>
      <ResourceList kind={HELM_REPOSITORIES} level={1} />
    </>
  );
}
