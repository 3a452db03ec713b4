// Fetches a query again when a key changes.
import { useEffect, useRef } from "react";
import type { OperationContext } from "urql";

/**
 * Fetches a query again each time `key` changes. The query itself fetches on the first render and
 * when `subject`, the object of the query, changes.
 */
export function useRefetch(refetch: (options?: Partial<OperationContext>) => void, key: string, subject = ""): void {
  const last = useRef({ key, subject });
  useEffect(() => {
    const before = last.current;
    last.current = { key, subject };
    if (before.subject === subject && before.key !== key) refetch({ requestPolicy: "network-only" });
  }, [refetch, key, subject]);
}
