import type { AnyVariables } from "urql";
import { Link } from "wouter";
import { NothingYet } from "../access/NothingYet";
import { Empty } from "../ui/Empty";
import { FilterField } from "../ui/FilterField";
import { PagedTable } from "../ui/PagedTable";
import { useParam } from "../ui/useParam";
import { useRowKeys } from "../ui/useRowKeys";
import { Actions } from "./Actions";
import type { Kind } from "./kind";
import "./manage.css";

/** Current address with another open row. */
function pathTo(open: string): string {
  const params = new URLSearchParams(location.search);
  if (open === "") params.delete("open");
  else params.set("open", open);
  return `${location.pathname}?${params.toString()}`;
}

type RowProps<Data, Variables extends AnyVariables, Node> = { readonly kind: Kind<Data, Variables, Node>; readonly node: Node; readonly isOpen: boolean };

function Rows<Data, Variables extends AnyVariables, Node>({ kind, node, isOpen }: RowProps<Data, Variables, Node>) {
  return (
    <>
      <tr>
        <td>
          <Link href={pathTo(isOpen ? "" : kind.id(node))} replace aria-expanded={isOpen}>
            <span aria-hidden="true" className="quiet">
              {isOpen ? "▾" : "▸"}
            </span>{" "}
            {kind.name(node)}
          </Link>
        </td>
        {kind.columns.map(([title, cell]) => (
          <td key={title} className="wide">
            {cell(node)}
          </td>
        ))}
      </tr>
      {isOpen && (
        <tr className="details">
          <td colSpan={kind.columns.length + 1}>
            <div className="stack" role="group" aria-label={`${kind.noun[0]} ${kind.name(node)}`}>
              <div className="bar">
                <Actions actions={kind.actions} node={node} />
              </div>
              {kind.details?.(node)}
            </div>
          </td>
        </tr>
      )}
    </>
  );
}

type Props<Data, Variables extends AnyVariables, Node> = { readonly kind: Kind<Data, Variables, Node>; readonly level?: 1 | 2 };

/** List of a kind of resource; an open row shows its details and actions. */
export function ResourceList<Data, Variables extends AnyVariables, Node>({ kind, level = 2 }: Props<Data, Variables, Node>) {
  const [q] = useParam("q");
  const [open] = useParam("open");
  useRowKeys();
  const Heading = level === 1 ? "h1" : "h2";
  return (
    <div className="stack">
      <div className="bar">
        <Heading>{kind.title}</Heading>
        <FilterField label={`Filter ${kind.noun[1]}`} />
        <span className="fill" />
        <Actions actions={kind.create} node={null} primary />
      </div>
      <PagedTable
        label={kind.title}
        titles={[kind.noun[0].replace(/^./, (letter) => letter.toUpperCase()), ...kind.columns.map(([title]) => title)]}
        query={kind.query}
        variables={kind.variables(q)}
        pick={kind.pick}
        row={(node) => <Rows key={kind.id(node)} kind={kind} node={node} isOpen={open === kind.id(node)} />}
        follow={kind.follow ?? null}
        empty={q === "" ? <NothingYet title={`No ${kind.noun[1]} yet`}>{kind.hint}</NothingYet> : <Empty title={`No matching ${kind.noun[1]}`}>Change or clear the filter.</Empty>}
      />
    </div>
  );
}
