import type { ReactNode } from "react";
import { Link } from "wouter";
import { Age } from "../ui/Age";
import { STATES } from "../ui/states";
import { Status } from "../ui/Status";

type Use = { readonly version: number; readonly pinned: boolean; readonly applied: boolean; readonly changedAt: string };

/** Table cells of one consumer: version, delivery state and time of the last change. */
export function UseCells({ use: { version, pinned, applied, changedAt } }: { readonly use: Use }) {
  return (
    <>
      <td>
        {version} {pinned && <span className="quiet">pinned</span>}
      </td>
      <td><Status state={applied ? STATES.delivered : STATES.progressing} /></td>
      <td>
        <Age at={changedAt} />
      </td>
    </>
  );
}

type SecretUse = Use & { readonly name: string; readonly secretId: string; readonly secretName: string };

/** Table row of a secret that a service uses; `children` are further cells. */
export function SecretUseRow({ use, children }: { readonly use: SecretUse; readonly children?: ReactNode }) {
  return (
    <tr>
      <td>
        <code>{use.name}</code>
      </td>
      <td>
        <Link href={`/secrets/${use.secretId}`}>{use.secretName}</Link>
      </td>
      <UseCells use={use} />
      {children}
    </tr>
  );
}
