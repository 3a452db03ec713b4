import {
  CreateOciRepositoryDocument,
  DeleteOciRepositoryDocument,
  OciRepositoriesDocument,
  SyncOciRepositoryDocument,
  UpdateOciRepositoryDocument,
  type OciRepositoriesQuery,
  type OciRepositoriesQueryVariables,
  type OciRowFragment,
} from "../api/generated";
import type { Kind } from "../manage/kind";
import { Table } from "../ui/Table";
import { registryKind } from "./registries";

export const OCI_REPOSITORIES: Kind<OciRepositoriesQuery, OciRepositoriesQueryVariables, OciRowFragment> = {
  ...registryKind(
    {
      group: "oci-repos",
      noun: "OCI repository",
      title: "OCI repository",
      url: "oci://HOST/PATH of artifacts with manifests, without a tag",
      fetch: "Reads all tags again. Services that follow a newer artifact are rendered.",
    },
    {
      create: (client, attributes) => client.mutation(CreateOciRepositoryDocument, { attributes }).toPromise(),
      update: (client, id, attributes) => client.mutation(UpdateOciRepositoryDocument, { id, attributes }).toPromise(),
      remove: (client, id) => client.mutation(DeleteOciRepositoryDocument, { id }).toPromise(),
      sync: (client, id) => client.mutation(SyncOciRepositoryDocument, { id }).toPromise(),
    },
  ),
  title: "OCI repositories",
  noun: ["OCI repository", "OCI repositories"],
  hint: "A service renders a folder of an artifact that Flux, ORAS or Helm has pushed to a registry.",
  query: OciRepositoriesDocument,
  variables: (filter) => filter,
  pick: ({ ociRepositories }) => ociRepositories,
  declared: ({ url }) => ({ kind: "OCIRepository", name: url }),
  details: ({ artifacts }) =>
    artifacts.length === 0 ? (
      <p className="quiet">No service uses an artifact of this repository yet.</p>
    ) : (
      <Table label="Artifacts" titles={["Tag, range or digest", "Revision", "Digest", "Commit"]}>
        {artifacts.map(({ ref, revision, digest, sha }) => (
          <tr key={ref}>
            <td>{ref}</td>
            <td>{revision}</td>
            <td>
              <code>{digest.slice(0, 19)}</code>
            </td>
            <td>
              <code>{sha.slice(0, 8)}</code>
            </td>
          </tr>
        ))}
      </Table>
    ),
};
