// Actions on the releases of a pipeline.
import { AbortRolloutDocument, AcknowledgeRollbackDocument, CheckTriggerDocument, StartReleaseDocument, type ReleaseStageFragment, type TriggerRowFragment } from "../api/generated";
import type { Action, Permission } from "../manage/kind";
import { option, text } from "../manage/values";

type Pipeline = { readonly id: string; readonly name: string };
export type StageOf = { readonly pipeline: Pipeline; readonly stage: ReleaseStageFragment };
export type TriggerOf = { readonly pipeline: Pipeline; readonly trigger: TriggerRowFragment };

const APPROVE: Permission = { verb: "APPROVE", kind: "PIPELINE" };
const REASON = { path: "reason", title: "Reason", note: "kept in the history" };

export const START: Action<Pipeline> = {
  title: "Start release",
  permission: APPROVE,
  consequence: () => "Takes the current revisions of the first stage as a new release. The gates of the pipeline apply.",
  fields: [REASON],
  command: (values, { name }) => ["pipelines", "start", name, ...option("--reason", text(values, "reason"))],
  run: (client, values, { id }) => client.mutation(StartReleaseDocument, { id, reason: text(values, "reason") }).toPromise(),
  done: "Release started",
};

export const ABORT: Action<StageOf> = {
  title: "Abort rollout",
  permission: { verb: "PAUSE", kind: "PIPELINE" },
  when: ({ stage }) => stage.health === "PROGRESSING",
  consequence: ({ stage }) => `${stage.name} counts as failed, and no further cluster gets the release. Updated services keep it until you roll back.`,
  fields: [REASON],
  command: (values, { pipeline, stage }) => ["pipelines", "abort", pipeline.name, stage.name, ...option("--reason", text(values, "reason"))],
  run: (client, values, { pipeline, stage }) => client.mutation(AbortRolloutDocument, { id: pipeline.id, stage: stage.name, reason: text(values, "reason") }).toPromise(),
  done: "Rollout aborted",
};

export const ACKNOWLEDGE: Action<StageOf> = {
  title: "Acknowledge rollback",
  permission: APPROVE,
  when: ({ stage }) => stage.hold !== null,
  consequence: ({ stage }) => `New releases may enter ${stage.name} again. Reason of the hold: ${stage.hold ?? "none"}`,
  command: (_, { pipeline, stage }) => ["pipelines", "acknowledge-rollback", pipeline.name, stage.name],
  run: (client, _, { pipeline, stage }) => client.mutation(AcknowledgeRollbackDocument, { id: pipeline.id, stage: stage.name }).toPromise(),
  done: "Hold lifted",
};

export const CHECK: Action<TriggerOf> = {
  title: "Check now",
  permission: APPROVE,
  consequence: ({ trigger }) => `Polls ${trigger.name} now instead of at the next interval.`,
  command: (_, { pipeline, trigger }) => ["pipelines", "check", pipeline.name, trigger.name],
  run: (client, _, { pipeline, trigger }) => client.mutation(CheckTriggerDocument, { id: pipeline.id, trigger: trigger.name }).toPromise(),
  done: "Check started",
};
