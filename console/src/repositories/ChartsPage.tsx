import { RegistryPage } from "./RegistryPage";
import { HELM_REPOSITORIES } from "./helm";

/** Helm repositories, also in OCI registries. */
export const ChartsPage = () => <RegistryPage kind={HELM_REPOSITORIES} />;
