import { closeOverlay, openOverlay } from "../ui/overlay";
import type { Operation } from "./operation";
import { PlanDialog } from "./PlanDialog";

type Props<Target, Planned> = { readonly operations: readonly Operation<Target, Planned>[]; readonly targets: readonly Target[] };

/** Buttons of the operations on the selected rows. */
export function BulkButtons<Target, Planned>({ operations, targets }: Props<Target, Planned>) {
  return operations.map((operation) => (
    <button key={operation.title} type="button" onClick={() => openOverlay(<PlanDialog operation={operation} targets={targets} onDone={closeOverlay} />)}>
      {operation.title}…
    </button>
  ));
}
