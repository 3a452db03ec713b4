import { useParam } from "../ui/useParam";

/** Point in time in the URL, and a setter; empty or invalid: now. */
export function useMoment(): readonly [string, (at: string) => void] {
  const [at, go] = useParam("at");
  return [Number.isNaN(Date.parse(at)) ? "" : at, go];
}
