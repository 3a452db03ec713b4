import { useState } from "react";
import { useMutation, useQuery } from "urql";
import { HistoryDocument, RollbackDocument } from "../api/generated";
import { useAgain } from "../live/useAgain";
import { Age } from "../ui/Age";
import { Confirm } from "../ui/Confirm";
import { Problem } from "../ui/Problem";
import { Skeleton } from "../ui/Skeleton";
import { Table } from "../ui/Table";
import { toast } from "../ui/toast";
import { ServiceChanges } from "./ServiceChanges";
import type { Service } from "./service";

/** What ran before, and the way back to it. */
export function History({ service }: { readonly service: Service }) {
  const [{ data, error }, again] = useQuery({ query: HistoryDocument, variables: { id: service.id, after: null } });
  useAgain(again, service.revision?.id ?? "");
  const [back, rollback] = useMutation(RollbackDocument);
  const [chosen, choose] = useState<string | null>(null);
  if (error !== undefined && data == null) return <Problem error={error} />;
  if (data == null) return <Skeleton lines={8} />;
  const target = data.revisions.edges.find(({ node }) => node.id === chosen)?.node;
  const go = async () => {
    if (target === undefined) return;
    const result = await rollback({ id: service.id, revisionId: target.id });
    choose(null);
    if (result.error === undefined) toast(`${service.name} returns to ${target.sha.slice(0, 8)}.`);
  };
  return (
    <>
      {back.error !== undefined && <Problem error={back.error} />}
      <Table label="Revisions" titles={["Since", "Commit", "Subject", "Author", ""]}>
        {data.revisions.edges.map(({ node }) => (
          <tr key={node.id}>
            <td>
              <Age at={node.insertedAt} />
            </td>
            <td>
              <code>{node.sha.slice(0, 8)}</code>
            </td>
            <td className="wide">{node.subject}</td>
            <td>{node.author}</td>
            <td>
              {node.id === service.revision?.id ? (
                <strong>now</strong>
              ) : (
                <button type="button" onClick={() => choose(node.id)}>
                  Return to this…
                </button>
              )}
            </td>
          </tr>
        ))}
      </Table>
      {target !== undefined && (
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
