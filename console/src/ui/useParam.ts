// Filters are kept in the URL, so that users can share a view.
import { useCallback } from "react";
import { useLocation, useSearch } from "wouter";

/** Value and setter of a URL parameter; an empty value removes it. */
export function useParam(name: string): readonly [string, (value: string) => void] {
  const search = useSearch();
  const [, go] = useLocation();
  const value = new URLSearchParams(search).get(name) ?? "";
  const change = useCallback(
    (next: string) => {
      // Read the current URL: another parameter may have changed since the last render.
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
