// One query language for all lists: words, and conditions such as `cluster:dev tag:tier=web`.

/** A condition of a list: its values, if they are few, and an example. */
export type Condition = { readonly values?: readonly string[]; readonly example: string };
export type Conditions = Readonly<Record<string, Condition>>;

export type ParsedQuery = {
  /** Words without conditions. */
  readonly text: string;
  readonly values: Readonly<Record<string, readonly string[]>>;
  /** Unknown conditions and values, one sentence each. */
  readonly problems: readonly string[];
};

const WORD = /[^\s"]*"[^"]*"|\S+/g;

const unquoted = (word: string): string => word.replaceAll('"', "");

function problemOf(key: string, values: readonly string[], conditions: Conditions): string {
  const condition = conditions[key];
  if (condition === undefined) return `Unknown condition ${key}; expected one of ${Object.keys(conditions).join(", ")}`;
  const known = condition.values?.map((value) => value.toLowerCase());
  const wrong = known === undefined ? undefined : values.find((value) => !known.includes(value.toLowerCase()));
  return wrong === undefined ? "" : `Unknown ${key} ${wrong}; expected one of ${known?.join(", ") ?? ""}`;
}

/** Parses a query. A comma separates alternatives; quotes keep spaces. */
export function parseQuery(query: string, conditions: Conditions): ParsedQuery {
  const words: string[] = [];
  const values: Record<string, string[]> = {};
  const problems: string[] = [];
  for (const word of query.match(WORD) ?? []) {
    // `https://…` is a word, such as a part of the URL of a repository.
    const [, key = "", rest = ""] = /^([a-z]+):(?!\/\/)(.*)$/s.exec(word) ?? [];
    if (key === "") {
      words.push(unquoted(word));
      continue;
    }
    const given = unquoted(rest).split(",").filter((value) => value !== "");
    const problem = problemOf(key, given, conditions);
    if (problem !== "") problems.push(problem);
    else values[key] = [...(values[key] ?? []), ...given];
  }
  return { text: words.join(" "), values, problems };
}

/** Completions of the last word of a query, each as a whole query. */
export function completions(query: string, conditions: Conditions): readonly string[] {
  const last = /\S*$/.exec(query)?.[0] ?? "";
  const before = query.slice(0, query.length - last.length);
  const [, key = "", typed = ""] = /^([a-z]+):(.*)$/.exec(last) ?? [];
  const offered = key === "" ? Object.keys(conditions).map((name) => `${name}:`) : (conditions[key]?.values ?? []).map((value) => `${key}:${value.toLowerCase()}`);
  return offered.filter((word) => word.startsWith(key === "" ? last : `${key}:${typed}`) && word !== last).map((word) => before + word);
}
