// Forms of gates and steps. The YAML next to the form has all settings.

/** `path` is the field's path in the YAML of the gate: `metric.query`. */
export type GateField = {
  readonly path: string;
  readonly title: string;
  readonly note?: string;
  readonly of: "text" | "long" | "yaml" | "number" | "check" | "list" | "secret" | readonly string[];
  /** Default of a checkbox. */
  readonly default?: boolean;
};
/** Kind of gate or step. `npm run generate` writes all kinds to `api/kinds.ts`. */
export type GateKind = { readonly title: string; readonly description: string; readonly fields: readonly GateField[]; readonly initial: Readonly<Record<string, unknown>> };

const isMap = (value: unknown): value is Record<string, unknown> => typeof value === "object" && value !== null && !Array.isArray(value);

/** Value at a path; undefined: not set. */
export function at(value: unknown, path: string): unknown {
  return path.split(".").reduce<unknown>((inner, name) => (isMap(inner) ? inner[name] : undefined), value);
}

/** Copy with another value at a path; undefined removes it. */
export function withAt<Whole extends Readonly<Record<string, unknown>>>(value: Whole, path: string, next: unknown): Whole {
  const [name = "", ...rest] = path.split(".");
  const own = rest.length === 0 ? next : withAt(isMap(value[name]) ? value[name] : {}, rest.join("."), next);
  if (own !== undefined) return { ...value, [name]: own };
  return Object.fromEntries(Object.entries(value).filter(([key]) => key !== name)) as Whole;
}
