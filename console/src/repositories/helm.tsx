import {
  CreateHelmRepositoryDocument,
  DeleteHelmRepositoryDocument,
  HelmRepositoriesDocument,
  SyncHelmRepositoryDocument,
  UpdateHelmRepositoryDocument,
  type HelmRepositoriesQuery,
  type HelmRepositoriesQueryVariables,
  type HelmRowFragment,
} from "../api/generated";
import type { Kind } from "../manage/kind";
import { Table } from "../ui/Table";
import { registryKind } from "./registries";

export const HELM_REPOSITORIES: Kind<HelmRepositoriesQuery, HelmRepositoriesQueryVariables, HelmRowFragment> = {
  ...registryKind(
    {
      group: "helm-repos",
      noun: "chart repository",
      title: "Chart repository",
      url: "https://… of a chart repository, or oci://… of a registry",
      fetch: "Resolves all version ranges again. Services that use a newer chart are rendered.",
    },
    {
      create: (client, attributes) => client.mutation(CreateHelmRepositoryDocument, { attributes }).toPromise(),
      update: (client, id, attributes) => client.mutation(UpdateHelmRepositoryDocument, { id, attributes }).toPromise(),
      remove: (client, id) => client.mutation(DeleteHelmRepositoryDocument, { id }).toPromise(),
      sync: (client, id) => client.mutation(SyncHelmRepositoryDocument, { id }).toPromise(),
    },
  ),
  title: "Helm repositories",
  noun: ["chart repository", "chart repositories"],
  hint: "A service can use a chart from a repository or a registry.",
  query: HelmRepositoriesDocument,
  variables: (filter) => filter,
  pick: ({ helmRepositories }) => helmRepositories,
  declared: ({ url }) => ({ kind: "HelmRepository", name: url }),
  details: ({ charts }) =>
    charts.length === 0 ? (
      <p className="quiet">No service uses a chart of this repository yet.</p>
    ) : (
      <Table label="Charts" titles={["Chart", "Range", "Version", "Digest"]}>
        {charts.map(({ chart, range, version, digest }) => (
          <tr key={`${chart} ${range}`}>
            <td>{chart}</td>
            <td>{range}</td>
            <td>{version}</td>
            <td>
              <code>{digest.slice(0, 19)}</code>
            </td>
          </tr>
        ))}
      </Table>
    ),
};
