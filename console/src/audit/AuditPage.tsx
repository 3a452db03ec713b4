import { useState } from "react";
import { Link } from "wouter";
import { AuditRowsDocument, type AuditKind, type AuditLogFilter, type AuditRowFragment, type AuditVerdict } from "../api/generated";
import { List, type Column } from "../lists/List";
import { Age } from "../ui/Age";
import { Chips } from "../ui/Chips";
import { FilterField } from "../ui/FilterField";
import { auditState } from "../ui/states";
import { Status } from "../ui/Status";
import { useParam } from "../ui/useParam";
import "./audit.css";

const KINDS: readonly (readonly [AuditKind | "", string])[] = [
  ["", "All"],
  ["CHANGE", "Changes"],
  ["SIGN_IN", "Sign-ins"],
  ["REQUEST", "Requests"],
  ["AGENT", "Agents"],
];
const VERDICTS: readonly (readonly [AuditVerdict | "", string])[] = [
  ["", "Any"],
  ["ALLOWED", "Allowed"],
  ["REFUSED", "Denied"],
];
const FOLLOW = 3_000;

function useFilter(): AuditLogFilter {
  const [kind] = useParam("kind");
  const [verdict] = useParam("verdict");
  const [actor] = useParam("actor");
  return {
    kind: KINDS.find(([key]) => key === kind)?.[0] || null,
    verdict: VERDICTS.find(([key]) => key === verdict)?.[0] || null,
    actor: actor || null,
  };
}

function exportAddress(q: string, { kind, verdict, actor }: AuditLogFilter): string {
  const query = new URLSearchParams({ format: "jsonl" });
  if (q !== "") query.set("q", q);
  if (kind != null) query.set("kind", kind.toLowerCase().replace("_", "-"));
  if (verdict != null) query.set("verdict", verdict.toLowerCase());
  if (actor != null) query.set("actor", actor);
  return `/audit/export?${query.toString()}`;
}

function Details({ row }: { readonly row: AuditRowFragment }) {
  const isRecorded = row.detail["recorded"] === true;
  return (
    <>
      {isRecorded && <Link href={`/recordings/${row.requestId}`}>Play</Link>}
      <details className="detail">
        <summary>Details</summary>
        <dl>
          <dt>entry</dt>
          <dd>
            {row.kind.toLowerCase()} {row.number}
          </dd>
          <dt>hash</dt>
          <dd>
            <code>{row.hash.slice(0, 24)}</code>
          </dd>
          <dt>request</dt>
          <dd>
            <code>{row.requestId || "–"}</code>
          </dd>
          {Object.entries(row.detail).map(([name, value]) => (
            <div key={name}>
              <dt>{name}</dt>
              <dd>{typeof value === "string" ? value : JSON.stringify(value)}</dd>
            </div>
          ))}
        </dl>
      </details>
    </>
  );
}

const COLUMNS: readonly Column<AuditRowFragment>[] = [
  { id: "time", title: "Time", sort: ({ at }) => at, cell: ({ at }) => <Age at={at} /> },
  { id: "actor", title: "Actor", isLong: true, sort: ({ actor }) => actor, cell: ({ actor }) => actor },
  { id: "action", title: "Action", sort: ({ action }) => action, cell: ({ action }) => <code>{action}</code> },
  { id: "result", title: "Result", sort: ({ verdict }) => verdict, cell: ({ verdict }) => <Status state={auditState(verdict)} /> },
  { id: "target", title: "Target", className: "wide", sort: ({ target }) => target, cell: ({ target }) => target },
  { id: "status", title: "HTTP status", className: "number", isOptional: true, sort: ({ status }) => status, cell: ({ status }) => status },
  { id: "source", title: "Source", isLong: true, sort: ({ source }) => source, cell: ({ source }) => source },
  { id: "details", title: "", cell: (row) => <Details row={row} /> },
];

/** Audit log with filters and live updates. */
export function AuditPage() {
  const [q] = useParam("q");
  const filter = useFilter();
  const [follow, setFollow] = useState(true);
  return (
    <>
      <div className="bar">
        <h1>Audit log</h1>
        <FilterField label="Filter by action or target" />
        <FilterField label="Actor (full e-mail)" name="actor" />
        <Chips label="Kind" name="kind" options={KINDS} />
        <Chips label="Result" name="verdict" options={VERDICTS} />
        <label className="check">
          <input type="checkbox" checked={follow} onChange={(event) => setFollow(event.target.checked)} /> Follow
        </label>
        <span className="fill" />
        {/* The browser streams this to a file: the log may exceed the memory of a page. */}
        <a className="button" href={exportAddress(q, filter)} download="audit.jsonl">
          Export log
        </a>
      </div>
      <List
        label="Audit log"
        counted={["entry", "entries"]}
        columns={COLUMNS}
        query={AuditRowsDocument}
        variables={{ q: q || null, filter }}
        pick={(data) => data.auditLogs}
        id={({ id }) => id}
        name={({ action, target }) => `${action} ${target}`}
        follow={follow ? FOLLOW : null}
        empty={<p className="quiet">No matching entries.</p>}
      />
    </>
  );
}
