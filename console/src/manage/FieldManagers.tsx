import { useQuery } from "urql";
import { FieldManagersDocument, type FieldManagersQuery } from "../api/generated";
import type { Declared } from "./AsYaml";
import "./manage.css";

type Manager = FieldManagersQuery["fieldManagers"][number];

const consequenceOf = ({ source, reverts }: Manager): string =>
  reverts ? "Its next check reverts changes of them." : source === null ? "Its next apply may revert changes of them." : "Its next commit overwrites changes of them.";

/** Note about fields that a configuration source, Terraform or another manager sets. */
export function FieldManagers({ kind, name }: Declared) {
  const [{ data }] = useQuery({ query: FieldManagersDocument, variables: { kind, name }, requestPolicy: "cache-and-network" });
  // A generated resource has no manifest, and the query fails.
  if (data == null || data.fieldManagers.length === 0) return null;
  return (
    <ul className="managers" aria-label="Managed fields">
      {data.fieldManagers.map((manager) => (
        <li key={manager.manager}>
          {manager.source === null ? "Manager" : "Configuration source"} <strong>{manager.source ?? manager.manager}</strong> sets{" "}
          <code>{manager.fields.map((field) => field.replace(/^spec\./, "")).join(", ")}</code>. {consequenceOf(manager)}
        </li>
      ))}
    </ul>
  );
}
