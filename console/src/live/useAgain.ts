// Asks again when what a page shows has moved on.
import { useEffect, useRef } from "react";
import type { OperationContext } from "urql";

/** Ask anew each time `key` changes; the first time the query asks by itself. */
export function useAgain(again: (options?: Partial<OperationContext>) => void, key: string): void {
  const last = useRef(key);
  useEffect(() => {
    if (last.current === key) return;
    last.current = key;
    again({ requestPolicy: "network-only" });
  }, [again, key]);
}
