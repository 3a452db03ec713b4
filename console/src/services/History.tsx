import { useState } from "react";
import { useMutation } from "urql";
import { HistoryDocument, RollbackDocument, type HistoryQuery } from "../api/generated";
import { Age } from "../ui/Age";
import { Confirm } from "../ui/Confirm";
import { PagedTable } from "../ui/PagedTable";
import { Person } from "../ui/Person";
import { Problem } from "../ui/Problem";
import { toast } from "../ui/toast";
import { ServiceChanges } from "./ServiceChanges";
import type { Service } from "./service";

type Revision = HistoryQuery["revisions"]["edges"][number]["node"];

function Row({ revision, isCurrent, onRollback }: { readonly revision: Revision; readonly isCurrent: boolean; readonly onRollback: () => void }) {
  return (
    <tr>
      <td>
        <Age at={revision.insertedAt} />
      </td>
      <td>
        <code>{revision.sha.slice(0, 8)}</code>
      </td>
      <td className="wide">{revision.subject}</td>
      <td>
        <Person author={revision.author} />
      </td>
      <td>
        {isCurrent ? (
          <strong>Current</strong>
        ) : (
          <button type="button" onClick={onRollback}>
            Roll back…
          </button>
        )}
      </td>
    </tr>
  );
}

/** Earlier revisions of a service, with rollback. */
export function History({ service }: { readonly service: Service }) {
  const [back, rollback] = useMutation(RollbackDocument);
  const [target, choose] = useState<Revision | null>(null);
  const go = async () => {
    if (target === null) return;
    const result = await rollback({ id: service.id, revisionId: target.id });
    choose(null);
    if (result.error === undefined) toast(`Rollback of ${service.name} to ${target.sha.slice(0, 8)} started`);
  };
  return (
    <>
      {back.error !== undefined && <Problem error={back.error} />}
      <PagedTable
        key={service.revision?.id}
        label="Revisions"
        titles={["Deployed", "Commit", "Subject", "Author", ""]}
        query={HistoryDocument}
        variables={{ id: service.id }}
        pick={(data) => data.revisions}
        row={(revision) => <Row key={revision.id} revision={revision} isCurrent={revision.id === service.revision?.id} onRollback={() => choose(revision)} />}
        empty={<p className="quiet">No revisions yet.</p>}
      />
      {target !== null && (
        <Confirm title={`Roll back ${service.name} to ${target.sha.slice(0, 8)}?`} action="Roll back" onCancel={() => choose(null)} onConfirm={() => void go()}>
          <p>
            “{target.subject}” by {target.author}. The service is then pinned to this commit and ignores new commits until you unpin it.
          </p>
          <div className="preview">
            <ServiceChanges serviceId={service.id} digest={target.digest} />
          </div>
        </Confirm>
      )}
    </>
  );
}
