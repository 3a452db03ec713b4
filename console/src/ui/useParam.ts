// Filters live in the address, so that a view can be sent to somebody.
import { useCallback } from "react";
import { useLocation, useSearch } from "wouter";

/** A parameter of the address and how to change it; empty removes it. */
export function useParam(name: string): readonly [string, (value: string) => void] {
  const search = useSearch();
  const [path, go] = useLocation();
  const value = new URLSearchParams(search).get(name) ?? "";
  const change = useCallback(
    (next: string) => {
      const params = new URLSearchParams(search);
      if (next === "") params.delete(name);
      else params.set(name, next);
      const rest = params.toString();
      go(rest === "" ? path : `${path}?${rest}`, { replace: true });
    },
    [search, path, name, go],
  );
  return [value, change];
}
