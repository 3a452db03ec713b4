// What stands on a board: stages, gates, and what a gate is asked about.
import type { GateBoardFragment, PipelineBoardFragment } from "../api/generated";
import type { Tone } from "../ui/Status";

export type Stage = PipelineBoardFragment["stages"][number];
export type Edge = PipelineBoardFragment["edges"][number];
export type Gate = GateBoardFragment;

/** What a gate is asked: may this release, with these digests of services, be in this stage? */
export type Asked = {
  readonly release: Edge["release"];
  readonly digests: readonly (Edge["digests"][number] & { readonly service: string })[];
  readonly stage: string;
  /** Why all of it waits; what a gate says beside that is its own. */
  readonly reason: string;
  /** The gate as a part of the pipeline, in words. */
  readonly place: string;
  /** The stage runs the release already: the gate is its own workflow. */
  readonly within: boolean;
};

function named(digests: Edge["digests"], stage: Stage | undefined): Asked["digests"] {
  const names = new Map(stage?.services.map(({ service: { id, name, cluster } }) => [id, `${cluster?.handle ?? ""}/${name}`]));
  return digests.map((one) => ({ ...one, service: names.get(one.serviceId) ?? one.serviceId }));
}

/** What the gates of an edge are asked; `stages` are those of its pipeline. */
export function askedBefore({ release, digests, reason, from, to }: Edge, stages: readonly Stage[]): Asked {
  const behind = stages.find(({ id }) => id === to.id);
  return { release, digests: named(digests, behind), stage: to.name, reason, place: `${from.name} → ${to.name}`, within: false };
}

/** What the workflow of a stage is asked. */
export function askedWithin(stage: Stage): Asked {
  const { release, digests, name, reason } = stage;
  return { release, digests: named(digests, stage), stage: name, reason, place: name, within: true };
}

const HEALTH: Record<string, readonly [Tone, string]> = {
  HEALTHY: ["ok", "Healthy"],
  PROGRESSING: ["busy", "On its way"],
  FAILED: ["bad", "Failed"],
};

/** Tone and word of a stage's health. */
export const stageHealth = (health: string): readonly [Tone, string] => HEALTH[health] ?? ["idle", "Empty"];
