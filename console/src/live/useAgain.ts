// Asks again when what a page shows has moved on.
import { useEffect, useRef } from "react";
import type { OperationContext } from "urql";

/**
 * Ask anew each time `key` changes; the first time the query asks by itself, and so it does when
 * `asked`, what it is asked about, becomes another.
 */
export function useAgain(again: (options?: Partial<OperationContext>) => void, key: string, asked = ""): void {
  const last = useRef({ key, asked });
  useEffect(() => {
    const before = last.current;
    last.current = { key, asked };
    if (before.asked === asked && before.key !== key) again({ requestPolicy: "network-only" });
  }, [again, key, asked]);
}
