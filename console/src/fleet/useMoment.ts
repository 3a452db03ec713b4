import { useParam } from "../ui/useParam";

/** The moment that the address names, and how to go to another; empty is now, and so is what is no time. */
export function useMoment(): readonly [string, (at: string) => void] {
  const [at, go] = useParam("at");
  return [Number.isNaN(Date.parse(at)) ? "" : at, go];
}
