import { useState } from "react";
import { Link } from "wouter";
import { AuditRowsDocument, type AuditKind, type AuditLogFilter, type AuditRowFragment, type AuditVerdict } from "../api/generated";
import { Age } from "../ui/Age";
import { Chips } from "../ui/Chips";
import { FilterField } from "../ui/FilterField";
import { PagedTable } from "../ui/PagedTable";
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
  ["REFUSED", "Refused"],
];
const FOLLOW = 3_000;

function useFilter(): AuditLogFilter {
  const [kind] = useParam("kind");
  const [verdict] = useParam("verdict");
  const [actor] = useParam("actor");
  return {
    kind: KINDS.find(([one]) => one === kind)?.[0] || null,
    verdict: VERDICTS.find(([one]) => one === verdict)?.[0] || null,
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

function Row({ row }: { readonly row: AuditRowFragment }) {
  const isRecorded = row.detail["recorded"] === true;
  return (
    <tr>
      <td>
        <Age at={row.at} />
      </td>
      <td>{row.actor}</td>
      <td>
        <code>{row.action}</code>
      </td>
      <td>
        <Status tone={row.verdict === "refused" ? "bad" : "ok"}>{row.verdict}</Status>
      </td>
      <td className="wide">{row.target}</td>
      <td>{row.source}</td>
      <td>
        {isRecorded && <Link href={`/recordings/${row.requestId}`}>Play</Link>}
        <details className="detail">
          <summary>More</summary>
          <dl>
            <dt>row</dt>
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
      </td>
    </tr>
  );
}

/** Who did what, from where, with which result; followed as it happens. */
export function AuditPage() {
  const [q] = useParam("q");
  const filter = useFilter();
  const [follow, setFollow] = useState(true);
  return (
    <>
      <div className="bar">
        <h1>Audit</h1>
        <FilterField label="Filter by action or target" />
        <FilterField label="By whom (whole e-mail)" name="actor" />
        <Chips label="Kind" name="kind" options={KINDS} />
        <Chips label="Verdict" name="verdict" options={VERDICTS} />
        <label className="check">
          <input type="checkbox" checked={follow} onChange={(event) => setFollow(event.target.checked)} /> Follow
        </label>
        <span className="fill" />
        {/* Saved by the browser as it comes: a trail may be larger than a page's memory. */}
        <a className="button" href={exportAddress(q, filter)} download="audit.jsonl">
          Export
        </a>
      </div>
      <PagedTable
        label="Audit trail"
        titles={["When", "Who", "What", "Verdict", "To what", "From", ""]}
        query={AuditRowsDocument}
        variables={{ q: q || null, filter }}
        pick={(data) => data.auditLogs}
        row={(one) => <Row key={one.id} row={one} />}
        follow={follow ? FOLLOW : null}
        empty={<p className="quiet">No row is like that.</p>}
      />
    </>
  );
}
