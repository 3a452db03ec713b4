// Items of the inbox: one list over all kinds, newest first.
import type { AccessRequestRowFragment, InboxQuery } from "../api/generated";
import { edgeQuestion, workflowQuestion, type Gate, type GateQuestion } from "../pipelines/stages";

type Inbox = InboxQuery["inbox"];
type Pipeline = Inbox["approvals"][number]["pipeline"];

export type ItemKind = "approval" | "deletion" | "access" | "failure";

export type InboxItem = { readonly key: string; readonly at: string | null } & (
  | { readonly kind: "approval"; readonly pipeline: Pipeline; readonly gate: Gate; readonly question: GateQuestion }
  | { readonly kind: "deletion"; readonly service: Inbox["deletions"][number] }
  | { readonly kind: "access"; readonly request: AccessRequestRowFragment }
  | { readonly kind: "failure"; readonly pipeline: Pipeline; readonly stage: Pipeline["stages"][number]; readonly reason: string }
  | { readonly kind: "failure"; readonly service: Inbox["failedServices"][number] }
);

export const KINDS: readonly (readonly [ItemKind | "", string])[] = [
  ["", "All"],
  ["approval", "Approvals"],
  ["deletion", "Deletions"],
  ["access", "Access requests"],
  ["failure", "Failures"],
];

function approvalOf({ gateId, pipeline }: Inbox["approvals"][number]): InboxItem[] {
  const edge = pipeline.edges.find(({ gates }) => gates.some(({ id }) => id === gateId));
  const stage = pipeline.stages.find(({ workflow }) => workflow?.id === gateId);
  const gate = edge?.gates.find(({ id }) => id === gateId) ?? stage?.workflow;
  if (gate == null || (edge === undefined && stage === undefined)) return [];
  const question = edge === undefined ? workflowQuestion(stage as Pipeline["stages"][number]) : edgeQuestion(edge, pipeline.stages);
  return [{ kind: "approval", key: gateId, at: question.release?.seenAt ?? null, pipeline, gate, question }];
}

function stageOf({ stageId, pipeline }: Inbox["failedStages"][number]): InboxItem[] {
  const stage = pipeline.stages.find(({ id }) => id === stageId);
  if (stage === undefined) return [];
  const waiting = pipeline.edges.find(({ to, release }) => to.id === stageId && release !== null);
  const isInside = stage.health === "FAILED";
  const release = isInside ? stage.release : waiting?.release;
  const reason = (isInside ? stage.reason : waiting?.reason) ?? "";
  return [{ kind: "failure", key: stageId, at: release?.seenAt ?? null, pipeline, stage, reason }];
}

/** Number of items of a kind, also of those that are not loaded. */
export function countOf({ counts }: Inbox, kind: string): number {
  const { approvals, failedStages, accessRequests, deletions, failedServices } = counts;
  const of: Readonly<Record<string, number>> = { approval: approvals, deletion: deletions, access: accessRequests, failure: failedStages + failedServices };
  return kind === "" ? Object.values(of).reduce((sum, count) => sum + count, 0) : (of[kind] ?? 0);
}

/** All loaded items; those that wait longest come last. */
export function itemsOf(inbox: Inbox): readonly InboxItem[] {
  const items: InboxItem[] = [
    ...inbox.approvals.flatMap(approvalOf),
    ...inbox.failedStages.flatMap(stageOf),
    ...inbox.accessRequests.map((request) => ({ kind: "access" as const, key: request.id, at: request.insertedAt, request })),
    ...inbox.deletions.map((service) => ({ kind: "deletion" as const, key: service.id, at: service.updatedAt, service })),
    ...inbox.failedServices.map((service) => ({ kind: "failure" as const, key: service.id, at: service.updatedAt, service })),
  ];
  return items.sort((left, right) => (right.at ?? "").localeCompare(left.at ?? ""));
}
