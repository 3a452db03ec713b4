import { useState } from "react";
import { useClient } from "urql";
import { PlanDialog } from "../bulk/PlanDialog";
import { reasonOf } from "../bulk/operation";
import { Menu, type MenuItem } from "../ui/Menu";
import { closeOverlay, openOverlay } from "../ui/overlay";
import { actionsFor, titleOf, type WorkloadAction } from "./actions";
import type { LiveObject } from "./objects";
import { lackOf, readLive, workloadOperation, type WorkloadTarget } from "./operations";

type Props = {
  readonly targets: readonly WorkloadTarget[];
  readonly title?: string;
  readonly label?: string;
};

/** Menu of the actions for objects in a cluster. For one object, it reads its state and the permissions first. */
export function WorkloadActions({ targets, title = "Actions", label }: Props) {
  const [items, setItems] = useState<readonly MenuItem[] | null>(null);
  const client = useClient();
  const actions = actionsFor(targets.map(({ ref }) => ref));
  const [only] = targets;
  if (actions.length === 0 || only === undefined) return null;
  const item = (action: WorkloadAction, live: LiveObject | null, lack: string): MenuItem => ({
    title: `${titleOf(action, targets.length === 1 ? only.ref.kind : "objects")}…`,
    lack,
    isDangerous: action.id.startsWith("delete"),
    onSelect: () => {
      const operation = workloadOperation(client, action, targets, live === null ? {} : (action.initial?.(live) ?? {}));
      openOverlay(<PlanDialog operation={operation} targets={targets} onDone={closeOverlay} />);
    },
  });
  const open = async () => {
    if (targets.length > 1) {
      setItems(actions.map((action) => item(action, null, "")));
      return;
    }
    setItems(null);
    try {
      const live = await readLive(only);
      const fitting = actions.filter(({ fits }) => fits?.(live) ?? true);
      const lacks = await Promise.all(fitting.map((action) => lackOf(only, action)));
      setItems(fitting.map((action, index) => item(action, live, lacks[index] ?? "")));
    } catch (error) {
      setItems(actions.map((action) => item(action, null, reasonOf(error))));
    }
  };
  return <Menu title={title} {...(label === undefined ? {} : { label })} items={items} onOpen={() => void open()} />;
}

type ObjectRow = { readonly id: string; readonly group: string | null; readonly version: string | null; readonly kind: string; readonly namespace: string | null; readonly name: string };

/** Target of actions for an object of a service. */
export const targetOf = ({ id, group, version, kind, namespace, name }: ObjectRow, handle: string, serviceId: string): WorkloadTarget => ({
  id,
  ref: { group, version: version ?? "v1", kind, namespace, name },
  handle,
  serviceId,
});
