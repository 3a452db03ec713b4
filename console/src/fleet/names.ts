// Which service a cell is: the map has letters only, names are asked for where somebody points.
import { client } from "../api/client";
import { CellNamesDocument, type CellNamesQuery, type ServiceDeploymentStatus } from "../api/generated";

export type CellService = { readonly id: string; readonly name: string };
type Asked = { readonly q: string | null; readonly status: ServiceDeploymentStatus[] | null };

async function pageOf(clusterId: string, after: string | null, asked: Asked): Promise<CellNamesQuery["serviceDeployments"]> {
  const { data, error } = await client.query(CellNamesDocument, { clusterId, after, ...asked }).toPromise();
  if (data == null) throw error ?? new Error("the names were not told");
  return data.serviceDeployments;
}

/** The services of a cluster in the order of their cells: by name. */
export async function namesIn(clusterId: string, { q, status }: Asked): Promise<readonly CellService[]> {
  const found: CellService[] = [];
  let after: string | null = null;
  do {
    const page: CellNamesQuery["serviceDeployments"] = await pageOf(clusterId, after, { q, status });
    const { edges, pageInfo } = page;
    found.push(...edges.map(({ node }) => node));
    after = pageInfo.hasNextPage ? pageInfo.endCursor : null;
  } while (after !== null);
  return found.sort((left, right) => (left.name < right.name ? -1 : 1));
}
