import { Age } from "../ui/Age";
import { Status } from "../ui/Status";

type Use = { readonly version: number; readonly pinned: boolean; readonly applied: boolean; readonly changedAt: string };

/** Cells of a service's use of a secret: which version, whether its cluster has it, since when. */
export function UseCells({ use: { version, pinned, applied, changedAt } }: { readonly use: Use }) {
  return (
    <>
      <td>
        {version} {pinned && <span className="quiet">held there</span>}
      </td>
      <td>{applied ? <Status tone="ok">There</Status> : <Status tone="busy">On its way</Status>}</td>
      <td>
        <Age at={changedAt} />
      </td>
    </>
  );
}
