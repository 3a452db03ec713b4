import { useState } from "react";
import { ActionDialog } from "./ActionDialog";
import type { Action } from "./kind";
import { useLack } from "./usePermission";

type Props<Node> = { readonly actions: readonly Action<Node>[]; readonly node: Node; readonly primary?: boolean };

function ActionButton<Node>({ action, node, primary = false }: { readonly action: Action<Node>; readonly node: Node; readonly primary?: boolean }) {
  const [isOpen, setOpen] = useState(false);
  const lack = useLack(action.permission);
  const tone = primary ? "primary" : action.typed === undefined ? "" : "danger";
  return (
    <>
      <button type="button" className={tone} disabled={lack !== ""} title={lack === "" ? undefined : lack} onClick={() => setOpen(true)}>
        {action.title}…
      </button>
      {lack !== "" && <small className="quiet">{lack}</small>}
      {isOpen && <ActionDialog action={action} node={node} onDone={() => setOpen(false)} />}
    </>
  );
}

/** Buttons of the actions that apply to a resource; disabled with a reason for users without the permission. */
export function Actions<Node>({ actions, node, primary = false }: Props<Node>) {
  return actions
    .filter(({ when }) => when?.(node) ?? true)
    .map((action, index) => <ActionButton key={action.title} action={action} node={node} primary={primary && index === 0} />);
}
