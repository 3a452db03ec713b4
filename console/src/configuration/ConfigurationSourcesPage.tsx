import { ResourceList } from "../manage/ResourceList";
import { SOURCES } from "./sources";

/** Folders of manifests in Git that run the installation. */
export function ConfigurationSourcesPage() {
  return <ResourceList kind={SOURCES} level={1} />;
}
