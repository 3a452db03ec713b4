// What somebody writes against the input types of the API, before it is sent.

/** A field's type as GraphQL writes it: `String!`, `[GateHoursAttributes!]`. */
export type Inputs = {
  readonly types: Readonly<Record<string, Readonly<Record<string, string>>>>;
  readonly enums: Readonly<Record<string, readonly string[]>>;
};

const SCALARS: Readonly<Record<string, readonly [(value: unknown) => boolean, string]>> = {
  String: [(value) => typeof value === "string", "text"],
  ID: [(value) => typeof value === "string", "an id"],
  Int: [(value) => Number.isInteger(value), "a whole number"],
  Float: [(value) => typeof value === "number" && Number.isFinite(value), "a number"],
  Boolean: [(value) => typeof value === "boolean", "true or false"],
};

const join = (path: string, name: string): string => (path === "" ? name : `${path}.${name}`);

function ofObject(inputs: Inputs, fields: Readonly<Record<string, string>>, value: unknown, path: string): string[] {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return [`${path}: write names and values here`];
  const given = value as Record<string, unknown>;
  const strange = Object.keys(given)
    .filter((name) => fields[name] === undefined)
    .map((name) => `${join(path, name)}: nothing is called so; there are ${Object.keys(fields).join(", ")}`);
  return [...strange, ...Object.entries(fields).flatMap(([name, type]) => ofType(inputs, type, given[name], join(path, name)))];
}

function ofType(inputs: Inputs, type: string, value: unknown, path: string): string[] {
  if (value === undefined || value === null) return type.endsWith("!") ? [`${path}: it has to be said`] : [];
  const bare = type.replace(/!$/, "");
  if (bare.startsWith("[")) {
    if (!Array.isArray(value)) return [`${path}: write a list here`];
    return value.flatMap((one, index) => ofType(inputs, bare.slice(1, -1), one, `${path}[${index}]`));
  }
  const choices = inputs.enums[bare];
  if (choices !== undefined) return choices.some((one) => one === value) ? [] : [`${path}: one of ${choices.join(", ")}`];
  const fields = inputs.types[bare];
  if (fields !== undefined) return ofObject(inputs, fields, value, path);
  const [isGood, word] = SCALARS[bare] ?? [() => true, ""];
  return isGood(value) ? [] : [`${path}: ${word} is needed`];
}

/** All that a value lacks, has wrong, or has too much as an input of this type, each in a sentence. */
export function conform(inputs: Inputs, type: string, value: unknown): readonly string[] {
  return ofType(inputs, `${type}!`, value, "");
}
