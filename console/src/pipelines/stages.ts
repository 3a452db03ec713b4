// Stages and gates of a board, and the question that each gate decides.
import type { GateBoardFragment, PipelineBoardFragment, PipelineRowFragment } from "../api/generated";

export type Stage = PipelineBoardFragment["stages"][number];
export type Edge = PipelineBoardFragment["edges"][number];
export type Gate = GateBoardFragment;

/** Question of a gate: may this release, with these service digests, enter or stay in this stage? */
export type GateQuestion = {
  readonly release: Edge["release"];
  readonly digests: readonly (Edge["digests"][number] & { readonly service: string })[];
  readonly stage: string;
  /** Reason why the whole edge or stage waits. A gate shows its own reason only if it differs. */
  readonly reason: string;
  /** Position of the gate in the pipeline, such as `dev → prod`. */
  readonly place: string;
  /** True for the workflow of a stage, which already runs the release. */
  readonly within: boolean;
};

function named(digests: Edge["digests"], stage: Stage | undefined): GateQuestion["digests"] {
  const names = new Map(stage?.services.map(({ service: { id, name, cluster } }) => [id, `${cluster?.handle ?? ""}/${name}`]));
  return digests.map((digest) => ({ ...digest, service: names.get(digest.serviceId) ?? digest.serviceId }));
}

/** Question of the gates of an edge; `stages` are all stages of its pipeline. */
export function edgeQuestion({ release, digests, reason, from, to }: Edge, stages: readonly Stage[]): GateQuestion {
  const target = stages.find(({ id }) => id === to.id);
  return { release, digests: named(digests, target), stage: to.name, reason, place: `${from.name} → ${to.name}`, within: false };
}

/** Question of a stage's workflow. */
export function workflowQuestion(stage: Stage): GateQuestion {
  const { release, digests, name, reason } = stage;
  return { release, digests: named(digests, stage), stage: name, reason, place: name, within: true };
}

/** Gates and steps that wait for a decision of a person. */
export const waitingGates = ({ stages, edges }: PipelineRowFragment): readonly Pick<Gate, "id" | "name">[] =>
  [...edges.flatMap(({ gates }) => gates), ...stages.flatMap(({ workflow }) => workflow ?? [])].filter(({ awaitsDecision }) => awaitsDecision);
