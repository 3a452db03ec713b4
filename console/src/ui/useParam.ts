// Filters live in the address, so that a view can be sent to somebody.
import { useCallback } from "react";
import { useLocation, useSearch } from "wouter";

/** A parameter of the address and how to change it; empty removes it. */
export function useParam(name: string): readonly [string, (value: string) => void] {
  const search = useSearch();
  const [, go] = useLocation();
  const value = new URLSearchParams(search).get(name) ?? "";
  const change = useCallback(
    (next: string) => {
      // As the address is by now: another parameter may have changed a moment ago.
      const params = new URLSearchParams(location.search);
      if (next === "") params.delete(name);
      else params.set(name, next);
      const rest = params.toString();
      go(rest === "" ? location.pathname : `${location.pathname}?${rest}`, { replace: true });
    },
    [name, go],
  );
  return [value, change];
}
