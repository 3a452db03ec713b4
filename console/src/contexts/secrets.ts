// Secrets of a context as YAML.
import type { ConfigAttributes } from "../api/generated";
import { parseMapping } from "../text/parseMapping";

export type Written = { readonly secrets: readonly ConfigAttributes[] | null; readonly problem: string };

/** Parses `name: text` lines; null: the text is empty, so the current secrets stay. */
export function secretsOf(text: string): Written {
  if (text.trim() === "") return { secrets: null, problem: "" };
  const { value, problem } = parseMapping(text);
  if (problem !== "") return { secrets: null, problem: `secrets: ${problem}` };
  const entries = Object.entries(value);
  const odd = entries.find(([, value]) => typeof value !== "string");
  if (odd !== undefined) return { secrets: null, problem: `secrets: ${odd[0]} must be text; put it in quotes` };
  return { secrets: entries.map(([name, secret]) => ({ name, value: secret as string })), problem: "" };
}
