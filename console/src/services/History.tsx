import { useState } from "react";
import { useMutation, useQuery } from "urql";
import { HistoryDocument, RollbackDocument } from "../api/generated";
import { Age } from "../ui/Age";
import { Confirm } from "../ui/Confirm";
import { Problem } from "../ui/Problem";
import { Skeleton } from "../ui/Skeleton";
import type { Service } from "./service";

/** What ran before, and the way back to it. */
export function History({ service }: { readonly service: Service }) {
  const [{ data, error }] = useQuery({ query: HistoryDocument, variables: { id: service.id, after: null } });
  const [back, rollback] = useMutation(RollbackDocument);
  const [chosen, choose] = useState<string | null>(null);
  if (error !== undefined && data === undefined) return <Problem error={error} />;
  if (data === undefined) return <Skeleton lines={8} />;
  const target = data.revisions.edges.find(({ node }) => node.id === chosen)?.node;
  return (
    <>
      {back.error !== undefined && <Problem error={back.error} />}
      <table className="table">
        <tbody>
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
                    Return to this
                  </button>
                )}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
      {target !== undefined && (
        <Confirm
          title={`Return ${service.name} to ${target.sha.slice(0, 8)}?`}
          action="Return to it"
          onCancel={() => choose(null)}
          onConfirm={() => {
            void rollback({ id: service.id, revisionId: target.id }).then(() => choose(null));
          }}
        >
          <p>“{target.subject}” by {target.author}. The service is held there: new commits do not move it until you let it go.</p>
        </Confirm>
      )}
    </>
  );
}
