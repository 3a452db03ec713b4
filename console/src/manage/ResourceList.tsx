import { useMemo } from "react";
import { useClient, type AnyVariables } from "urql";
import { Link } from "wouter";
import { NothingYet } from "../access/NothingYet";
import { BulkButtons } from "../bulk/BulkButtons";
import { List, type Column } from "../lists/List";
import { Empty } from "../ui/Empty";
import { QueryField } from "../lists/QueryField";
import { LABEL_CONDITIONS, useListFilter } from "../lists/useListFilter";
import { useParam } from "../ui/useParam";
import { Actions } from "./Actions";
import { AsYaml } from "./AsYaml";
import { bulkAction } from "./bulkAction";
import { FieldManagers } from "./FieldManagers";
import type { Kind } from "./kind";
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

type Props<Data, Variables extends AnyVariables, Node> = { readonly kind: Kind<Data, Variables, Node>; readonly level?: 1 | 2 };

function DeclaredAs<Data, Variables extends AnyVariables, Node>({ kind, node }: { readonly kind: Kind<Data, Variables, Node>; readonly node: Node }) {
  const declared = kind.declared?.(node) ?? null;
  return declared === null ? null : <AsYaml {...declared} />;
}

function ManagersOf<Data, Variables extends AnyVariables, Node>({ kind, node }: { readonly kind: Kind<Data, Variables, Node>; readonly node: Node }) {
  const declared = kind.declared?.(node) ?? null;
  return declared === null ? null : <FieldManagers {...declared} />;
}

/** List of a kind of resource; an open row shows its details and actions. */
export function ResourceList<Data, Variables extends AnyVariables, Node>({ kind, level = 2 }: Props<Data, Variables, Node>) {
  const { filter, problems, isFiltered } = useListFilter();
  const [open] = useParam("open");
  const client = useClient();
  const columns = useMemo(() => columnsOf(kind, open), [kind, open]);
  // Fields differ for each row, and a deletion asks for the name of one resource.
  const operations = useMemo(() => kind.actions.filter(({ fields = [], typed }) => fields.length === 0 && typed === undefined).map((action) => bulkAction(client, action, kind)), [client, kind]);
  const Heading = level === 1 ? "h1" : "h2";
  return (
    <div className="stack">
      <div className="bar">
        <Heading>{kind.title}</Heading>
        {kind.unfiltered !== true && <QueryField label={`Filter ${kind.noun[1]}`} conditions={LABEL_CONDITIONS} problems={problems} />}
        <span className="fill" />
        <Actions actions={kind.create} node={null} primary />
      </div>
      <List
        label={kind.title}
        counted={kind.noun}
        columns={columns}
        query={kind.query}
        variables={kind.variables(filter)}
        pick={kind.pick}
        id={kind.id}
        name={kind.name}
        {...(operations.length === 0 ? {} : { bulk: (nodes: readonly Node[]) => <BulkButtons operations={operations} targets={nodes} /> })}
        details={(node) =>
          open === kind.id(node) && (
            <div className="stack" role="group" aria-label={`${kind.noun[0]} ${kind.name(node)}`}>
              <div className="bar">
                <Actions actions={kind.actions} node={node} />
                <DeclaredAs kind={kind} node={node} />
              </div>
              <ManagersOf kind={kind} node={node} />
              {kind.details?.(node)}
            </div>
          )
        }
        follow={kind.follow ?? null}
        problems={problems}
        empty={!isFiltered ? <NothingYet title={`No ${kind.noun[1]} yet`}>{kind.hint}</NothingYet> : <Empty title={`No matching ${kind.noun[1]}`}>Change or clear the filter.</Empty>}
      />
    </div>
  );
}
