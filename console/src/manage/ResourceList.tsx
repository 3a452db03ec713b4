import { useMemo } from "react";
import { useClient, type AnyVariables, type Client } from "urql";
import { Link } from "wouter";
import { NothingYet } from "../access/NothingYet";
import { BulkButtons } from "../bulk/BulkButtons";
import type { Operation } from "../bulk/operation";
import { List, type Column } from "../lists/List";
import { Empty } from "../ui/Empty";
import { FilterField } from "../ui/FilterField";
import { useParam } from "../ui/useParam";
import { Actions } from "./Actions";
import type { Action, Kind } from "./kind";
import { commandLine } from "./values";
import "./manage.css";

/** Current address with another open row. */
function pathTo(open: string): string {
  const params = new URLSearchParams(location.search);
  if (open === "") params.delete("open");
  else params.set("open", open);
  return `${location.pathname}?${params.toString()}`;
}

/** Columns of a kind: its name opens the details. */
function columnsOf<Data, Variables extends AnyVariables, Node>(kind: Kind<Data, Variables, Node>, open: string): readonly Column<Node>[] {
  const first: Column<Node> = {
    id: "name",
    title: kind.noun[0].replace(/^./, (letter) => letter.toUpperCase()),
    sort: kind.name,
    cell: (node) => {
      const isOpen = open === kind.id(node);
      return (
        <Link href={pathTo(isOpen ? "" : kind.id(node))} replace aria-expanded={isOpen}>
          <span aria-hidden="true" className="quiet">
            {isOpen ? "▾" : "▸"}
          </span>{" "}
          {kind.name(node)}
        </Link>
      );
    },
  };
  return [first, ...kind.columns.map(([title, cell]) => ({ id: title.toLowerCase().replaceAll(" ", "-"), title, cell, className: "wide" }))];
}

/** Operation that runs an action without fields on several resources. */
function operationOf<Node>(client: Client, action: Action<Node>, { id, name, noun }: Pick<Kind<unknown, AnyVariables, Node>, "id" | "name" | "noun">): Operation<Node, null> {
  return {
    title: action.title,
    done: "done",
    noun: noun[0],
    consequence: "Runs the action on each selected row.",
    key: id,
    name,
    plan: (node) =>
      Promise.resolve(
        action.when?.(node) === false ? { kind: "unchanged", reason: "The state of this row does not allow the action." } : { kind: "ready", planned: null, changes: [], notes: action.consequence === undefined ? [] : [action.consequence(node)] },
      ),
    run: async (_, node) => {
      const { error } = await action.run(client, {}, node);
      if (error !== undefined) throw error;
    },
    commands: (nodes) => nodes.map((node) => action.command?.({}, node) ?? []).filter((words) => words.length > 0).map(commandLine),
    yaml: () => "",
  };
}

type Props<Data, Variables extends AnyVariables, Node> = { readonly kind: Kind<Data, Variables, Node>; readonly level?: 1 | 2 };

/** List of a kind of resource; an open row shows its details and actions. */
export function ResourceList<Data, Variables extends AnyVariables, Node>({ kind, level = 2 }: Props<Data, Variables, Node>) {
  const [q] = useParam("q");
  const [open] = useParam("open");
  const client = useClient();
  const columns = useMemo(() => columnsOf(kind, open), [kind, open]);
  // Fields differ for each row, and a deletion asks for the name of one resource.
  const operations = useMemo(() => kind.actions.filter(({ fields = [], typed }) => fields.length === 0 && typed === undefined).map((action) => operationOf(client, action, kind)), [client, kind]);
  const Heading = level === 1 ? "h1" : "h2";
  return (
    <div className="stack">
      <div className="bar">
        <Heading>{kind.title}</Heading>
        <FilterField label={`Filter ${kind.noun[1]}`} />
        <span className="fill" />
        <Actions actions={kind.create} node={null} primary />
      </div>
      <List
        label={kind.title}
        counted={kind.noun}
        columns={columns}
        query={kind.query}
        variables={kind.variables(q)}
        pick={kind.pick}
        id={kind.id}
        name={kind.name}
        {...(operations.length === 0 ? {} : { bulk: (nodes: readonly Node[]) => <BulkButtons operations={operations} targets={nodes} /> })}
        details={(node) =>
          open === kind.id(node) && (
            <div className="stack" role="group" aria-label={`${kind.noun[0]} ${kind.name(node)}`}>
              <div className="bar">
                <Actions actions={kind.actions} node={node} />
              </div>
              {kind.details?.(node)}
            </div>
          )
        }
        follow={kind.follow ?? null}
        empty={q === "" ? <NothingYet title={`No ${kind.noun[1]} yet`}>{kind.hint}</NothingYet> : <Empty title={`No matching ${kind.noun[1]}`}>Change or clear the filter.</Empty>}
      />
    </div>
  );
}
