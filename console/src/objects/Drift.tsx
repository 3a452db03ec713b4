import type { ComponentQuery } from "../api/generated";
import { asYaml } from "../text/yaml";
import { Diff } from "../ui/Code";
import { OutsideChanges } from "./FieldOwners";

type Component = NonNullable<ComponentQuery["component"]>["component"];

/** Diff of the desired and the live manifest, with the owners of foreign fields. The agent reports content only for drifted objects. */
export function Drift({ component: { id, content, synced } }: { readonly component: Component }) {
  const isReported = content?.live != null && content.desired != null;
  return (
    <div className="stack">
      {isReported ? (
        <Diff before={asYaml(content.desired ?? "")} after={asYaml(content.live ?? "")} label="Diff from Git to live" />
      ) : (
        <p className="quiet">{synced ? "In sync with Git" : "Out of sync with Git. Waiting for the agent to report the diff."}</p>
      )}
      <h2>Changed outside Git</h2>
      <OutsideChanges id={id} />
    </div>
  );
}
