import type { ReactNode } from "react";
import { useQuery } from "urql";
import { Link } from "wouter";
import { MyAccessDocument } from "../api/generated";
import { Empty } from "../ui/Empty";
import { Skeleton } from "../ui/Skeleton";

type Props = { readonly title: string; readonly children: ReactNode };

/** Empty state of a list without a filter. For users without a role, the list says nothing about the installation. */
export function NothingYet({ title, children }: Props) {
  const [{ data, error }] = useQuery({ query: MyAccessDocument });
  if (data == null && error === undefined) return <Skeleton lines={4} />;
  if (data?.myAccess.length !== 0) return <Empty title={title}>{children}</Empty>;
  return (
    <Empty title="You have no role">
      <p>Towline shows only what your roles permit. Request access, or ask an administrator for a role.</p>
      <Link className="button primary" href="/access?tab=requests">
        Request access
      </Link>
    </Empty>
  );
}
