// Reads the values of a dialog.
import { tagsOf } from "../clusters/tags";
import type { FormField, Values } from "./kind";

/** Text of a field; empty if it is not set. */
export function text(values: Values, name: string): string {
  const value = values[name];
  return typeof value === "string" ? value.trim() : typeof value === "number" ? String(value) : "";
}

export const optional = (values: Values, name: string): string | null => text(values, name) || null;

export const number = (values: Values, name: string): number | null => (typeof values[name] === "number" ? values[name] : null);

export const flag = (values: Values, name: string): boolean => values[name] === true;

export function list(values: Values, name: string): string[] {
  const value = values[name];
  return Array.isArray(value) ? value.map(String) : [];
}

/** Pairs of a list of `name=value`. */
export const pairs = (values: Values, name: string): { name: string; value: string }[] => tagsOf(list(values, name).join(" "));

export const mapping = (values: Values, name: string): Record<string, unknown> => {
  const value = values[name];
  return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Record<string, unknown>) : {};
};

/** JSON text of a YAML field; null if it is empty. */
export const json = (values: Values, name: string): string | null => (Object.keys(mapping(values, name)).length === 0 ? null : JSON.stringify(mapping(values, name)));

export const pairWords = (tags: readonly { readonly name: string; readonly value: string }[]): string[] => tags.map(({ name, value }) => `${name}=${value}`);

const isEmpty = (value: unknown): boolean => value === undefined || value === "" || (Array.isArray(value) && value.length === 0);

/** Missing and invalid values, one sentence each. */
export function complaintsOf(fields: readonly FormField[], values: Values): readonly string[] {
  return fields.flatMap(({ path, title, required = false, of }) => {
    if (required && isEmpty(values[path])) return [`${title} is required`];
    return of === "yaml" && typeof values[path] === "string" && values[path] !== "" ? [`${title}: must be a YAML mapping`] : [];
  });
}

const SAFE = /^[\w@%+=:,./-]+$/;
const quoted = (word: string): string => (SAFE.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`);

/** Words of any command, quoted for the shell. */
export const shellLine = (words: readonly string[]): string => words.map(quoted).join(" ");

/** Command line with quoted words. */
export const commandLine = (words: readonly string[]): string => shellLine(["towline", ...words]);

/** Option and its value as words; nothing without a value. */
export const option = (name: string, value: string | number | null): readonly string[] => (value === null || value === "" ? [] : [name, String(value)]);

export const options = (name: string, values: readonly string[]): readonly string[] => values.flatMap((value) => [name, value]);

