// Names of the services in the cells. The map has only letters, so names are fetched on hover.
import { client } from "../api/client";
import { CellNamesDocument, type CellNamesQuery, type ServiceState } from "../api/generated";

export type CellService = { readonly id: string; readonly name: string };
type Filter = { readonly q: string | null; readonly status: ServiceState[] | null; readonly repositoryId: string | null };

async function pageOf(clusterId: string, after: string | null, filter: Filter): Promise<CellNamesQuery["serviceDeployments"]> {
  const { data, error } = await client.query(CellNamesDocument, { clusterId, after, ...filter }).toPromise();
  if (data == null) throw error ?? new Error("the API returned no names");
  return data.serviceDeployments;
}

/** Services of a cluster in the order of their cells, which is by name. */
export async function namesIn(clusterId: string, filter: Filter): Promise<readonly CellService[]> {
  const found: CellService[] = [];
  let after: string | null = null;
  do {
    const page: CellNamesQuery["serviceDeployments"] = await pageOf(clusterId, after, filter);
    const { edges, pageInfo } = page;
    found.push(...edges.map(({ node }) => node));
    after = pageInfo.hasNextPage ? pageInfo.endCursor : null;
  } while (after !== null);
  return found.sort((left, right) => (left.name < right.name ? -1 : 1));
}
