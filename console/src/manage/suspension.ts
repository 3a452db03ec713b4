// Actions that suspend and resume a source, which the control plane reconciles by itself.
import type { Action, Permission } from "./kind";

type Suspendable = { readonly id: string; readonly name: string; readonly suspended: boolean };
type Run = Action<Suspendable>["run"];

type Suspensions = {
  /** Noun at the beginning of a sentence, such as `Cluster source`. */
  readonly noun: string;
  /** Group of commands, such as `cluster-sources`. */
  readonly command: string;
  readonly permission: Permission;
  readonly update: (client: Parameters<Run>[0], id: string, suspended: boolean) => ReturnType<Run>;
};

/** Returns both actions, each from its consequence. */
export function suspensions<Source extends Suspendable>({ noun, command, permission, update }: Suspensions) {
  const action = (title: "Suspend" | "Resume", suspended: boolean, consequence: string): Action<Source> => ({
    title,
    permission,
    consequence: () => consequence,
    when: (source) => source.suspended !== suspended,
    command: (_, { name }) => [command, title.toLowerCase(), name],
    run: (client, _, { id }) => update(client, id, suspended),
    done: `${noun} ${suspended ? "suspended" : "resumed"}`,
  });
  return {
    suspend: (consequence: string) => action("Suspend", true, consequence),
    resume: (consequence: string) => action("Resume", false, consequence),
  };
}
