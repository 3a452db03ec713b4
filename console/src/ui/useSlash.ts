// `/` goes into the field of a page.
import { useEffect, type RefObject } from "react";
import { typing } from "../app/keys";

/** Puts the cursor into a field on `/`, unless somebody types elsewhere; `isMain`: whether it is the page's. */
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
