// Handles of all clusters, across all pages.
import { useEffect, useState } from "react";
import type { CombinedError } from "urql";
import { client } from "../api/client";
import { HandlesDocument, type HandlesQuery } from "../api/generated";

type Handles = { readonly handles: readonly string[] | undefined; readonly error: CombinedError | undefined };

async function all(): Promise<Handles> {
  const handles: string[] = [];
  let after: string | null = null;
  do {
    const { data, error } = await client.query<HandlesQuery>(HandlesDocument, { after }).toPromise();
    if (data == null) return { handles: undefined, error };
    handles.push(...data.clusters.edges.map(({ node }) => node.handle));
    after = data.clusters.pageInfo.hasNextPage ? data.clusters.pageInfo.endCursor : null;
  } while (after !== null);
  return { handles, error: undefined };
}

/** All handles; undefined until the last page has arrived. */
export function useHandles(): Handles {
  const [state, setState] = useState<Handles>({ handles: undefined, error: undefined });
  useEffect(() => {
    let cancelled = false;
    void all().then((found) => {
      if (!cancelled) setState(found);
    });
    return () => {
      cancelled = true;
    };
  }, []);
  return state;
}
