import type { ComponentQuery } from "../api/generated";
import { asYaml } from "../text/yaml";
import { Diff } from "../ui/Code";
import { Strangers } from "./Blame";

type Component = NonNullable<ComponentQuery["component"]>["component"];

/** What git says against what is there, and who has set what differs. Only where it differs, the agent tells of it. */
export function Drift({ component: { id, content, synced } }: { readonly component: Component }) {
  const isTold = content?.live != null && content.desired != null;
  return (
    <div className="stack">
      {isTold ? (
        <Diff before={asYaml(content.desired ?? "")} after={asYaml(content.live ?? "")} label="From what git says to what is there" />
      ) : (
        <p className="quiet">{synced ? "What is there is what git says, in every field that it names." : "It differs from git; its agent has not told how yet."}</p>
      )}
      <h2>Set by somebody else</h2>
      <Strangers id={id} />
    </div>
  );
}
