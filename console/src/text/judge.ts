// YAML that somebody types: its value, or what is wrong and where.
import { parseDocument } from "yaml";

export type Judged = { readonly value: Record<string, unknown>; readonly problem: string };

/** The mapping in a text. It may have at most 100 aliases, so that it stays as small as it looks. */
export function judged(text: string): Judged {
  const document = parseDocument(text);
  const first = document.errors[0];
  if (first !== undefined) return { value: {}, problem: `line ${first.linePos?.[0].line ?? "?"}: ${first.message.split("\n")[0] ?? ""}` };
  try {
    const value: unknown = document.toJS({ maxAliasCount: 100 });
    if (typeof value === "object" && value !== null && !Array.isArray(value)) return { value: value as Record<string, unknown>, problem: "" };
    return { value: {}, problem: "write names and values: `name: value`" };
  } catch (error) {
    return { value: {}, problem: error instanceof Error ? error.message : String(error) };
  }
}
