// Description of an operation on one or more targets; one dialog plans it, confirms it and shows each result.
import type { FormField, Values } from "../manage/kind";
import type { Undo } from "../undo/inverses";

export type Change = { readonly field: string; readonly before: string | null; readonly after: string | null };

/** Effect on one target, before the operation runs. */
export type Plan<Planned> =
  | { readonly kind: "ready"; readonly planned: Planned; readonly changes: readonly Change[]; readonly notes?: readonly string[] }
  | { readonly kind: "unchanged"; readonly reason: string }
  | { readonly kind: "refused"; readonly reason: string };

export type Operation<Target, Planned> = {
  /** Verb and object. */
  readonly title: string;
  /** Past participle, such as `restarted`. */
  readonly done: string;
  readonly noun: string;
  readonly consequence: string;
  readonly key: (target: Target) => string;
  readonly name: (target: Target) => string;
  readonly fields?: readonly FormField[];
  readonly initial?: Values;
  /** True if the operation cannot be undone. */
  readonly isDangerous?: boolean;
  readonly plan: (target: Target, values: Values) => Promise<Plan<Planned>>;
  /** Gives what takes the change back; null: nothing does. */
  readonly run: (planned: Planned, target: Target, values: Values) => Promise<Undo | null>;
  /** Equivalent commands, one per line. */
  readonly commands: (targets: readonly Target[], values: Values) => readonly string[];
  /** Changes as YAML documents; empty without one. */
  readonly yaml: (planned: readonly Planned[]) => string;
};

export type Row<Target, Planned> = {
  readonly target: Target;
  readonly plan: Plan<Planned> | null;
  readonly result: "waiting" | "running" | "done" | "skipped" | { readonly error: string };
  readonly undo: Undo | null;
};

const PARALLEL = 6;

export const reasonOf = (error: unknown): string => (error instanceof Error ? error.message.replace(/^\[GraphQL\] /, "") : String(error));

/** Runs a task for every item, at most six at a time, until `isStopped`. */
export async function inParallel<Item>(items: readonly Item[], task: (item: Item, index: number) => Promise<void>, isStopped: () => boolean = () => false): Promise<void> {
  let next = 0;
  const worker = async () => {
    while (next < items.length && !isStopped()) {
      const index = next++;
      await task(items[index] as Item, index);
    }
  };
  await Promise.all(Array.from({ length: Math.min(PARALLEL, items.length) }, worker));
}
