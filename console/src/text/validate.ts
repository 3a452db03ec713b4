// Validates user input against the input types of the API before it is sent.

/** Field types in GraphQL syntax: `String!`, `[GateHoursAttributes!]`. */
export type Inputs = {
  readonly types: Readonly<Record<string, Readonly<Record<string, string>>>>;
  readonly enums: Readonly<Record<string, readonly string[]>>;
};

const SCALARS: Readonly<Record<string, readonly [(value: unknown) => boolean, string]>> = {
  String: [(value) => typeof value === "string", "a string"],
  ID: [(value) => typeof value === "string", "an id"],
  Int: [(value) => Number.isInteger(value), "a whole number"],
  Float: [(value) => typeof value === "number" && Number.isFinite(value), "a number"],
  Boolean: [(value) => typeof value === "boolean", "true or false"],
};

const join = (path: string, name: string): string => (path === "" ? name : `${path}.${name}`);

function ofObject(inputs: Inputs, fields: Readonly<Record<string, string>>, value: unknown, path: string): string[] {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return [`${path}: must be a mapping`];
  const given = value as Record<string, unknown>;
  const unknown = Object.keys(given)
    .filter((name) => fields[name] === undefined)
    .map((name) => `${join(path, name)}: unknown field; expected one of ${Object.keys(fields).join(", ")}`);
  return [...unknown, ...Object.entries(fields).flatMap(([name, type]) => ofType(inputs, type, given[name], join(path, name)))];
}

function ofType(inputs: Inputs, type: string, value: unknown, path: string): string[] {
  if (value === undefined || value === null) return type.endsWith("!") ? [`${path}: is required`] : [];
  const bare = type.replace(/!$/, "");
  if (bare.startsWith("[")) {
    if (!Array.isArray(value)) return [`${path}: must be a list`];
    return value.flatMap((item, index) => ofType(inputs, bare.slice(1, -1), item, `${path}[${index}]`));
  }
  const choices = inputs.enums[bare];
  if (choices !== undefined) return choices.some((choice) => choice === value) ? [] : [`${path}: must be one of ${choices.join(", ")}`];
  const fields = inputs.types[bare];
  if (fields !== undefined) return ofObject(inputs, fields, value, path);
  const [isValid, expected] = SCALARS[bare] ?? [() => true, ""];
  return isValid(value) ? [] : [`${path}: must be ${expected}`];
}

/** Missing, invalid and unknown fields of a value for an input type, one sentence each. */
export function validateInput(inputs: Inputs, type: string, value: unknown): readonly string[] {
  return ofType(inputs, `${type}!`, value, "");
}
