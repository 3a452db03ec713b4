// `/` focuses the filter of a page.
import { useEffect, type RefObject } from "react";
import { typing } from "../app/keys";

/** Focuses a field on `/`, unless the user types elsewhere. Does nothing if `isMain` is false. */
export function useSlash(field: RefObject<HTMLInputElement | null>, isMain = true): void {
  useEffect(() => {
    if (!isMain) return undefined;
    const onKey = (event: KeyboardEvent) => {
      if (event.key !== "/" || typing(event)) return;
      event.preventDefault();
      field.current?.focus();
    };
    addEventListener("keydown", onKey);
    return () => removeEventListener("keydown", onKey);
  }, [field, isMain]);
}
