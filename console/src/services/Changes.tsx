import type { ChangeFragment } from "../api/generated";
import { counted } from "../text/counts";
import { CHANGE_STATES } from "../ui/states";
import { Status } from "../ui/Status";
import "./changes.css";

function Field({ pointer, old, new: next }: ChangeFragment["fields"][number]) {
  return (
    <li>
      <code className="pointer">{pointer}</code>
      {old !== null && <del>{old}</del>}
      {next !== null && <ins>{next}</ins>}
    </li>
  );
}

function ObjectChange({ change, isOpen }: { readonly change: ChangeFragment; readonly isOpen: boolean }) {
  const title = (
    <>
      <Status state={CHANGE_STATES[change.change]} /> <span className="kind">{change.kind}</span> {change.namespace !== null && `${change.namespace}/`}
      {change.name}
    </>
  );
  if (change.fields.length === 0) return <p>{title}</p>;
  return (
    <details open={isOpen}>
      <summary>{title}</summary>
      <ul className="fields">
        {change.fields.map((field) => (
          <Field key={field.pointer} {...field} />
        ))}
      </ul>
      {change.more > 0 && <p className="quiet">and {counted(change.more, "more field")}</p>}
    </details>
  );
}

/** Changes of each object, field by field. The API never sends the values of Secrets. */
export function Changes({ objects }: { readonly objects: readonly ChangeFragment[] }) {
  if (objects.length === 0) return <p className="quiet">No objects would change.</p>;
  return (
    <ul className="object-changes">
      {objects.map((change) => (
        <li key={`${change.apiVersion} ${change.kind} ${change.namespace} ${change.name}`}>
          <ObjectChange change={change} isOpen={objects.length <= 10} />
        </li>
      ))}
    </ul>
  );
}
