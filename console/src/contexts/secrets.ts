// The secrets of a context as somebody writes them.
import type { ConfigAttributes } from "../api/generated";
import { judged } from "../text/judge";

export type Written = { readonly secrets: readonly ConfigAttributes[] | null; readonly problem: string };

/** A name and a text each, as YAML; null: nothing is said of them, they stay. */
export function secretsOf(text: string): Written {
  if (text.trim() === "") return { secrets: null, problem: "" };
  const { value, problem } = judged(text);
  if (problem !== "") return { secrets: null, problem: `secrets: ${problem}` };
  const entries = Object.entries(value);
  const odd = entries.find(([, one]) => typeof one !== "string");
  if (odd !== undefined) return { secrets: null, problem: `secrets: ${odd[0]} has to be text, in quotes` };
  return { secrets: entries.map(([name, one]) => ({ name, value: one as string })), problem: "" };
}
