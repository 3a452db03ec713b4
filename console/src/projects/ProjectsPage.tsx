import { ResourceList } from "../manage/ResourceList";
import { PROJECTS } from "./projects";

/** Projects: create, rename, delete. */
export function ProjectsPage() {
  return <ResourceList kind={PROJECTS} level={1} />;
}
