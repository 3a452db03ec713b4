import type { AnyVariables } from "urql";
import { Link } from "wouter";
import type { Kind } from "../manage/kind";
import { ResourceList } from "../manage/ResourceList";

/** Repositories of one kind, below the Git repositories. */
export function RegistryPage<Data, Variables extends AnyVariables, Node>({ kind }: { readonly kind: Kind<Data, Variables, Node> }) {
  return (
    <>
      <p className="crumbs">
        <Link href="/repositories">Repositories</Link>
      </p>
      <ResourceList kind={kind} level={1} />
    </>
  );
}
