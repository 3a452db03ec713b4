// Effect of self-heal on a change in the cluster.
import type { SyncOptionsQuery } from "../api/generated";
import type { ObjectRef } from "./objects";

type Options = Pick<NonNullable<SyncOptionsQuery["serviceDeployment"]>["syncConfig"], "driftPolicy" | "diffNormalizers">;

const steps = (pointer: string): readonly string[] => pointer.split("/").slice(1).map((step) => step.replaceAll("~1", "/").replaceAll("~0", "~"));

/** Value at a JSON pointer; undefined: there is none. */
export function valueAt(document: unknown, pointer: string): unknown {
  let value = document;
  for (const step of steps(pointer)) {
    if (typeof value !== "object" || value === null) return undefined;
    value = (value as Readonly<Record<string, unknown>>)[step];
  }
  return value;
}

const fits = (condition: string | null, value: string | null): boolean => (condition ?? "") === "" || condition === (value ?? "");

/** Whether a rule of the sync options leaves a field to other field managers. */
function isIgnored({ diffNormalizers }: Options, { group, kind, namespace, name }: ObjectRef, pointer: string): boolean {
  return diffNormalizers.some(
    (rule) =>
      fits(rule.group, group) && fits(rule.kind, kind) && fits(rule.namespace, namespace) && fits(rule.name, name) && rule.jsonPointers.some((ignored) => pointer === ignored || pointer.startsWith(`${ignored}/`)),
  );
}

const named = (pointer: string): string => steps(pointer).join(".");

const POLICIES: Readonly<Record<Options["driftPolicy"], string>> = {
  HEAL: "Self-heal reverts the change within seconds. To keep it, change Git, or ignore the field first.",
  REPORT: "The service reports drift, and the next sync reverts the change.",
  IGNORE: "Drift detection is off: the change stays until a sync applies the object again.",
};

/**
 * Says what self-heal does with changed fields of an object, in one or two sentences.
 * `git` is its rendered manifest; null: it is not in Git.
 */
export function selfHeal(ref: ObjectRef, pointers: readonly string[], git: unknown, options: Options, paused: boolean): string {
  if (git === null) return "Git does not define this object, so self-heal leaves the change.";
  const set = pointers.filter((pointer) => valueAt(git, pointer) !== undefined);
  if (set.length === 0) return "Git does not set the changed field, so self-heal leaves the change.";
  const reverted = set.find((pointer) => !isIgnored(options, ref, pointer));
  if (reverted === undefined) return "A rule of the sync options ignores this field, so self-heal leaves the change.";
  const field = reverted === "" ? "Git defines this object." : `Git sets ${named(reverted)} to ${JSON.stringify(valueAt(git, reverted))}.`;
  if (paused) return `${field} The service is suspended: the change stays until it resumes.`;
  return `${field} ${POLICIES[options.driftPolicy]}`;
}
