import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { CLUSTER_GROUPS } from "../src/clusters/groups";
import { CLUSTER_SOURCES } from "../src/clusters/sources";
import { CLUSTER_ACTIONS } from "../src/clusters/operations";
import { GLOBALS } from "../src/generators/globals";
import { NAMESPACES } from "../src/generators/namespaces";
import { SETS } from "../src/generators/sets";
import { EDIT_AGENTS, ROTATE } from "../src/installation/actions";
import { GIVE_SECRET, SERVICE_ACTIONS } from "../src/maintenance/actions";
import type { Action, Values } from "../src/manage/kind";
import { commandLine } from "../src/manage/values";
import { DELIVERIES } from "../src/notifications/deliveries";
import { RULES } from "../src/notifications/rules";
import { SINKS } from "../src/notifications/sinks";
import { GROUPS, MEMBER_ACTIONS } from "../src/people/groups";
import { TRUST_RULE_ACTIONS, USERS } from "../src/people/users";
import { ABORT, ACKNOWLEDGE, CHECK, START } from "../src/pipelines/releaseActions";
import { DENIED_REVISIONS } from "../src/pipelines/revisions";
import { WHAT_IF } from "../src/pipelines/whatIf";
import { PROJECTS } from "../src/projects/projects";
import { HELM_REPOSITORIES } from "../src/repositories/helm";

const REFERENCE = readFileSync(join(import.meta.dirname, "../../docs/reference/cli.md"), "utf8");

type AnyAction = Pick<Action<never>, "title" | "fields" | "command">;

const KINDS: readonly { readonly create: readonly AnyAction[]; readonly actions: readonly AnyAction[] }[] = [
  ...[USERS, GROUPS, PROJECTS, CLUSTER_GROUPS, CLUSTER_SOURCES, GLOBALS, SETS, NAMESPACES, SINKS, RULES, DELIVERIES, HELM_REPOSITORIES, DENIED_REVISIONS],
];

const ACTIONS: readonly AnyAction[] = [
  ...KINDS.flatMap(({ create, actions }) => [...create, ...actions]),
  ...[...CLUSTER_ACTIONS, ...SERVICE_ACTIONS, ...MEMBER_ACTIONS, ...TRUST_RULE_ACTIONS],
  ...[EDIT_AGENTS, ROTATE, GIVE_SECRET, START, ABORT, ACKNOWLEDGE, CHECK, WHAT_IF],
];

/** Resource whose every field is a text. */
const NODE: unknown = new Proxy({}, { get: (_, name) => (name === "uses" ? [] : name === "pipeline" || name === "stage" || name === "trigger" || name === "group" || name === "user" || name === "subject" ? NODE : String(name)) });

function filled({ fields = [] }: AnyAction): Values {
  return Object.fromEntries(fields.map(({ path, of, many }) => [path, of === "list" || many === true ? ["a=b"] : of === "number" ? 3 : of === "check" ? true : Array.isArray(of) ? of.at(-1) : "text"]));
}

const COMMANDS = ACTIONS.flatMap((action) => {
  const words = action.command?.(filled(action), NODE as never) ?? [];
  return words.length === 0 ? [] : [[action.title, words] as const];
});

it.each(COMMANDS)("has a command with existing options: %s", (_, words) => {
  const section = (head: string) => REFERENCE.split(`\n## \`${head}\`\n`)[1]?.split("\n## ")[0];
  const text = section(`towline ${words.slice(0, 2).join(" ")}`) ?? section(`towline ${words[0] ?? ""}`);
  expect(text, words.join(" ")).toBeDefined();
  for (const option of words.filter((word) => word.startsWith("--"))) expect(text).toMatch(new RegExp(`${option}\\b`));
});

it("covers most actions", () => {
  expect(COMMANDS.length).toBeGreaterThan(40);
});

it("quotes words for the shell", () => {
  expect(commandLine(["users", "trust", "it's", "repo:acme/shop:*"])).toBe("towline users trust 'it'\\''s' 'repo:acme/shop:*'");
});
