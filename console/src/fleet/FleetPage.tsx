import { ClustersPage } from "../clusters/ClustersPage";

/** The first page. */
export function FleetPage() {
  return <ClustersPage />;
}
