import { Age } from "../ui/Age";
import { STATES } from "../ui/states";
import { Status } from "../ui/Status";

type Use = { readonly version: number; readonly pinned: boolean; readonly applied: boolean; readonly changedAt: string };

/** Table cells of one consumer: version, delivery state and time of the last change. */
export function UseCells({ use: { version, pinned, applied, changedAt } }: { readonly use: Use }) {
  return (
    <>
      <td>
        {version} {pinned && <span className="quiet">pinned</span>}
      </td>
      <td><Status state={applied ? STATES.delivered : STATES.progressing} /></td>
      <td>
        <Age at={changedAt} />
      </td>
    </>
  );
}
