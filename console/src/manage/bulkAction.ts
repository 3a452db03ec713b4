// An action without fields as an operation on several resources.
import type { Client } from "urql";
import type { Operation } from "../bulk/operation";
import { refusalOf } from "../bulk/refusal";
import { inverseOf } from "../undo/inverses";
import type { Action } from "./kind";
import { commandLine } from "./values";

type Names<Node> = { readonly id: (node: Node) => string; readonly name: (node: Node) => string; readonly noun: readonly [singular: string, plural: string] };

/** Operation that runs an action without fields on several resources. */
export function bulkAction<Node>(client: Client, action: Action<Node>, { id, name, noun }: Names<Node>): Operation<Node, null> {
  return {
    title: action.title,
    done: "done",
    noun: noun[0],
    consequence: "Runs the action on each selected row.",
    key: id,
    name,
    plan: async (node) => {
      if (action.when?.(node) === false) return { kind: "unchanged", reason: "The state of this row does not allow the action." };
      const refusal = action.permission === undefined ? null : await refusalOf(client, action.permission, id(node));
      return refusal ?? { kind: "ready", planned: null, changes: [], notes: action.consequence === undefined ? [] : [action.consequence(node)] };
    },
    run: async (_, node) => {
      const result = await action.run(client, {}, node);
      if (result.error !== undefined) throw result.error;
      return inverseOf(result, node);
    },
    commands: (nodes) => nodes.map((node) => action.command?.({}, node) ?? []).filter((words) => words.length > 0).map(commandLine),
    yaml: () => "",
  };
}
