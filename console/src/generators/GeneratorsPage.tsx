import { ResourceList } from "../manage/ResourceList";
import { Tabs } from "../ui/Tabs";
import { GLOBALS } from "./globals";
import { NAMESPACES } from "./namespaces";
import { SETS } from "./sets";

/** Definitions that create services or namespaces in many clusters. */
export function GeneratorsPage() {
  return (
    <>
      <h1>Fleet services</h1>
      <Tabs
        tabs={[
          { id: "globals", title: "Global services", content: () => <ResourceList key="globals" kind={GLOBALS} /> },
          { id: "sets", title: "Service sets", content: () => <ResourceList key="sets" kind={SETS} /> },
          { id: "namespaces", title: "Namespaces", content: () => <ResourceList key="namespaces" kind={NAMESPACES} /> },
        ]}
      />
    </>
  );
}
