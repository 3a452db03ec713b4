import { RegistryPage } from "./RegistryPage";
import { OCI_REPOSITORIES } from "./oci";

/** Repositories of artifacts in OCI registries. */
export const ArtifactsPage = () => <RegistryPage kind={OCI_REPOSITORIES} />;
