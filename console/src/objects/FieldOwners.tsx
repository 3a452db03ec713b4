import { useState } from "react";
import { useQuery } from "urql";
import { ComponentBlameDocument, type ComponentBlameQuery } from "../api/generated";
import { counted } from "../text/counts";
import { Age } from "../ui/Age";
import { Person } from "../ui/Person";
import { Problem } from "../ui/Problem";
import { Skeleton } from "../ui/Skeleton";
import { Table } from "../ui/Table";

type Field = ComponentBlameQuery["componentBlame"][number];

const TOWLINE = "towline";
const STATUS = "status";
const MAX_ROWS = 200;

/** Origin of a field: a commit, a user, or only the field manager. */
export function Origin({ field }: { readonly field: Field }) {
  if (field.revision === null) return field.person === null ? <span className="quiet">outside Towline</span> : <strong>{field.person}</strong>;
  return (
    <>
      <Person author={field.revision.author} /> <code>{field.revision.sha.slice(0, 8)}</code> {field.revision.subject}
      {field.isOldestRevision && <span className="quiet"> or earlier</span>}
    </>
  );
}

function Fields({ label, fields }: { readonly label: string; readonly fields: readonly Field[] }) {
  return (
    <Table label={label} titles={["Field", "Value", "Set by", "Field manager", "Time"]}>
      {fields.map((field) => (
        <tr key={`${field.pointer} ${field.manager}`}>
          <td className="wide">
            <code>{field.pointer}</code>
          </td>
          <td className="wide">
            <code>{field.value}</code>
          </td>
          <td className="wide">
            <Origin field={field} />
          </td>
          <td>
            {field.manager} {field.subresource !== null && <span className="quiet">via {field.subresource}</span>}
          </td>
          <td>
            <Age at={field.at} never="unknown" />
          </td>
        </tr>
      ))}
    </Table>
  );
}

/** Fields that another field manager than Towline has set, newest first. */
export function OutsideChanges({ id }: { readonly id: string }) {
  const [{ data, error }] = useQuery({ query: ComponentBlameDocument, variables: { id }, requestPolicy: "network-only" });
  if (error !== undefined && data == null) return <Problem error={error} />;
  if (data == null) return <Skeleton lines={3} />;
  const foreign = data.componentBlame.filter(({ manager, subresource }) => manager !== TOWLINE && subresource !== STATUS);
  if (foreign.length === 0) return <p className="quiet">No fields changed outside Git.</p>;
  return <Fields label="Changed outside Git" fields={[...foreign].sort((left, right) => (right.at ?? "").localeCompare(left.at ?? "")).slice(0, MAX_ROWS)} />;
}

/** All fields of an object with the commit or the user that set them. */
export function FieldOwners({ id }: { readonly id: string }) {
  const [{ data, error }] = useQuery({ query: ComponentBlameDocument, variables: { id }, requestPolicy: "network-only" });
  const [text, setText] = useState("");
  if (error !== undefined && data == null) return <Problem error={error} />;
  if (data == null) return <Skeleton lines={8} />;
  const needle = text.toLowerCase();
  const shown = data.componentBlame.filter(({ pointer, manager, person }) => `${pointer} ${manager} ${person ?? ""}`.toLowerCase().includes(needle));
  return (
    <>
      <div className="bar">
        <input type="search" aria-label="Filter fields" placeholder="Filter fields" value={text} onChange={(event) => setText(event.target.value)} />
        <span className="quiet">{counted(shown.length, "field")}</span>
      </div>
      <Fields label="Fields" fields={shown.slice(0, MAX_ROWS)} />
      {shown.length > MAX_ROWS && <p className="quiet">and {shown.length - MAX_ROWS} more; narrow the filter</p>}
    </>
  );
}
