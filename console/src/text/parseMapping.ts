// Parses YAML that a user types.
import { parseDocument } from "yaml";

export type ParsedMapping = { readonly value: Record<string, unknown>; readonly problem: string };

/** Parses a YAML mapping; `problem` has the line of an error. At most 100 aliases, against alias bombs. */
export function parseMapping(text: string): ParsedMapping {
  const document = parseDocument(text);
  const first = document.errors[0];
  if (first !== undefined) return { value: {}, problem: `line ${first.linePos?.[0].line ?? "?"}: ${first.message.split("\n")[0] ?? ""}` };
  try {
    const value: unknown = document.toJS({ maxAliasCount: 100 });
    if (typeof value === "object" && value !== null && !Array.isArray(value)) return { value: value as Record<string, unknown>, problem: "" };
    return { value: {}, problem: "must be a mapping, such as `name: value`" };
  } catch (error) {
    return { value: {}, problem: error instanceof Error ? error.message : String(error) };
  }
}
