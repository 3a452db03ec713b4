import type { ChangeFragment } from "../api/generated";
import { Status, type Tone } from "../ui/Status";
import "./changes.css";

const TONES: Record<ChangeFragment["change"], readonly [Tone, string]> = {
  ADDED: ["ok", "added"],
  REMOVED: ["bad", "removed"],
  CHANGED: ["busy", "changed"],
};

function Field({ pointer, old, new: next }: ChangeFragment["fields"][number]) {
  return (
    <li>
      <code className="pointer">{pointer}</code>
      {old !== null && <del>{old}</del>}
      {next !== null && <ins>{next}</ins>}
    </li>
  );
}

function ObjectChange({ one, isOpen }: { readonly one: ChangeFragment; readonly isOpen: boolean }) {
  const [tone, word] = TONES[one.change];
  const title = (
    <>
      <Status tone={tone}>{word}</Status> <span className="kind">{one.kind}</span> {one.namespace !== null && `${one.namespace}/`}
      {one.name}
    </>
  );
  if (one.fields.length === 0) return <p>{title}</p>;
  return (
    <details open={isOpen}>
      <summary>{title}</summary>
      <ul className="fields">
        {one.fields.map((field) => (
          <Field key={field.pointer} {...field} />
        ))}
      </ul>
      {one.more > 0 && <p className="quiet">and {one.more} more fields</p>}
    </details>
  );
}

/** What would become of each object, field by field. Values of Secrets are never among them. */
export function Changes({ objects }: { readonly objects: readonly ChangeFragment[] }) {
  if (objects.length === 0) return <p className="quiet">No object would change.</p>;
  return (
    <ul className="object-changes">
      {objects.map((one) => (
        <li key={`${one.apiVersion} ${one.kind} ${one.namespace} ${one.name}`}>
          <ObjectChange one={one} isOpen={objects.length <= 10} />
        </li>
      ))}
    </ul>
  );
}
