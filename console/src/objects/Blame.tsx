import { useState } from "react";
import { useQuery } from "urql";
import { ComponentBlameDocument, type ComponentBlameQuery } from "../api/generated";
import { Age } from "../ui/Age";
import { Person } from "../ui/Person";
import { Problem } from "../ui/Problem";
import { Skeleton } from "../ui/Skeleton";
import { Table } from "../ui/Table";

type Field = ComponentBlameQuery["componentBlame"][number];

const OWN = "towline";
const MOST = 200;

/** Who it was, as exactly as is known: a person, a commit, or only the program that wrote it. */
function Who({ field }: { readonly field: Field }) {
  if (field.revision === null) return field.person === null ? <span className="quiet">not by way of Towline</span> : <strong>{field.person}</strong>;
  return (
    <>
      <Person author={field.revision.author} /> <code>{field.revision.sha.slice(0, 8)}</code> {field.revision.subject}
      {field.isOldestRevision && <span className="quiet"> or before</span>}
    </>
  );
}

function Fields({ label, fields }: { readonly label: string; readonly fields: readonly Field[] }) {
  return (
    <Table label={label} titles={["Field", "Value", "Who", "With", "When"]}>
      {fields.map((field) => (
        <tr key={`${field.pointer} ${field.manager}`}>
          <td className="wide">
            <code>{field.pointer}</code>
          </td>
          <td className="wide">
            <code>{field.value}</code>
          </td>
          <td className="wide">
            <Who field={field} />
          </td>
          <td>
            {field.manager} {field.subresource !== null && <span className="quiet">by {field.subresource}</span>}
          </td>
          <td>
            <Age at={field.at} never="not noted" />
          </td>
        </tr>
      ))}
    </Table>
  );
}

/** The fields that somebody else than Towline has set, the newest first: who has drifted an object. */
export function Strangers({ id }: { readonly id: string }) {
  const [{ data, error }] = useQuery({ query: ComponentBlameDocument, variables: { id }, requestPolicy: "network-only" });
  if (error !== undefined && data == null) return <Problem error={error} />;
  if (data == null) return <Skeleton lines={3} />;
  const others = data.componentBlame.filter(({ manager, subresource }) => manager !== OWN && subresource === null);
  if (others.length === 0) return <p className="quiet">Nobody else has set a field of it.</p>;
  return <Fields label="Set by somebody else" fields={[...others].sort((left, right) => (right.at ?? "").localeCompare(left.at ?? "")).slice(0, MOST)} />;
}

/** Every field of an object with the commit or the person that it comes from. */
export function Blame({ id }: { readonly id: string }) {
  const [{ data, error }] = useQuery({ query: ComponentBlameDocument, variables: { id }, requestPolicy: "network-only" });
  const [text, setText] = useState("");
  if (error !== undefined && data == null) return <Problem error={error} />;
  if (data == null) return <Skeleton lines={8} />;
  const wanted = text.toLowerCase();
  const shown = data.componentBlame.filter(({ pointer, manager, person }) => `${pointer} ${manager} ${person ?? ""}`.toLowerCase().includes(wanted));
  return (
    <>
      <div className="bar">
        <input type="search" aria-label="Filter fields" placeholder="Filter fields" value={text} onChange={(event) => setText(event.target.value)} />
        <span className="quiet">{shown.length} fields</span>
      </div>
      <Fields label="Fields" fields={shown.slice(0, MOST)} />
      {shown.length > MOST && <p className="quiet">and {shown.length - MOST} more: filter them</p>}
    </>
  );
}
