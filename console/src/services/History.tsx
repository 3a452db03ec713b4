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

function Row({ revision, isNow, onReturn }: { readonly revision: Revision; readonly isNow: boolean; readonly onReturn: () => void }) {
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
        {isNow ? (
          <strong>now</strong>
        ) : (
          <button type="button" onClick={onReturn}>
            Return to this…
          </button>
        )}
      </td>
    </tr>
  );
}

/** What ran before, and the way back to it. */
export function History({ service }: { readonly service: Service }) {
  const [back, rollback] = useMutation(RollbackDocument);
  const [target, choose] = useState<Revision | null>(null);
  const go = async () => {
    if (target === null) return;
    const result = await rollback({ id: service.id, revisionId: target.id });
    choose(null);
    if (result.error === undefined) toast(`${service.name} returns to ${target.sha.slice(0, 8)}.`);
  };
  return (
    <>
      {back.error !== undefined && <Problem error={back.error} />}
      <PagedTable
        key={service.revision?.id}
        label="Revisions"
        titles={["Since", "Commit", "Subject", "Author", ""]}
        query={HistoryDocument}
        variables={{ id: service.id }}
        pick={(data) => data.revisions}
        row={(one) => <Row key={one.id} revision={one} isNow={one.id === service.revision?.id} onReturn={() => choose(one)} />}
        empty={<p className="quiet">Nothing of it has run yet.</p>}
      />
      {target !== null && (
        <Confirm title={`Return ${service.name} to ${target.sha.slice(0, 8)}?`} action="Return to it" onCancel={() => choose(null)} onConfirm={() => void go()}>
          <p>
            “{target.subject}” by {target.author}. The service is held there: new commits do not move it until you let it go.
          </p>
          <div className="preview">
            <ServiceChanges serviceId={service.id} digest={target.digest} />
          </div>
        </Confirm>
      )}
    </>
  );
}
