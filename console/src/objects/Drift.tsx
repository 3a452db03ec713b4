import { useQuery } from "urql";
import { ComponentContentDocument, type ComponentContentQuery, type ComponentQuery } from "../api/generated";
import { useRefetch } from "../live/useRefetch";
import { asYaml } from "../text/yaml";
import { Diff } from "../ui/Code";
import { Problem } from "../ui/Problem";
import { Skeleton } from "../ui/Skeleton";
import { OutsideChanges } from "./FieldOwners";

type Component = NonNullable<ComponentQuery["component"]>["component"];
type Content = NonNullable<ComponentContentQuery["component"]>["component"]["content"];

function Difference({ content, synced }: { readonly content: Content; readonly synced: boolean }) {
  if (content?.desired == null) return <p className="quiet">Another controller owns this object; it is not in Git.</p>;
  if (synced) return <p className="quiet">In sync with Git</p>;
  if (content.live === null) return <p className="quiet">Out of sync with Git: the object does not exist in the cluster.</p>;
  if (content.live === content.desired) return <p className="quiet">Out of sync with Git only in hidden values, or no longer: the agent reports the state within seconds.</p>;
  return <Diff before={asYaml(content.desired)} after={asYaml(content.live)} label="Diff from Git to live" />;
}

/** Difference between the manifest in Git and the live object, with the owners of foreign fields. */
export function Drift({ component: { id, updatedAt } }: { readonly component: Component }) {
  const [{ data, error }, refetch] = useQuery({ query: ComponentContentDocument, variables: { id }, requestPolicy: "network-only" });
  useRefetch(refetch, updatedAt, id);
  const component = data?.component?.component;
  return (
    <div className="stack">
      {error !== undefined && <Problem error={error} />}
      {component === undefined ? error === undefined && <Skeleton lines={6} /> : error === undefined && <Difference content={component.content} synced={component.synced} />}
      <h2>Changed outside Git</h2>
      <OutsideChanges id={id} />
    </div>
  );
}
