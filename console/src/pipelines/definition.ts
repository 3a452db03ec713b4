// A pipeline as somebody writes it: what is wrong with it, and what the API is told.
import type { GateType, PipelineAttributes, PipelineDefinitionFragment, PipelineGateAttributes, PipelineWorkflowAttributes, StepType } from "../api/generated";
import { PIPELINE } from "../api/inputs";
import { conform } from "../text/conform";
import { toYaml } from "../text/yaml";

export type Choice = { readonly id: string; readonly name: string };

type Rest = Readonly<Record<string, unknown>>;
export type RuleText<Type extends string> = Rest & { readonly name: string; readonly type: Type };
export type GateText = RuleText<GateType>;
export type StepText = RuleText<StepType>;
type StageText = Rest & { readonly name: string; readonly services: readonly string[] };
type EdgeText = Rest & { readonly from: string; readonly to: string; readonly gates: readonly GateText[] };
export type Definition = Rest & { readonly stages: readonly StageText[]; readonly edges: readonly EdgeText[] };

const isMap = (value: unknown): value is Record<string, unknown> => typeof value === "object" && value !== null && !Array.isArray(value);
const map = (value: unknown): Record<string, unknown> => (isMap(value) ? value : {});
const list = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value : []);
const text = (value: unknown): string => (typeof value === "string" ? value : "");
const strings = (value: unknown): string[] => list(value).filter((one) => typeof one === "string");

function ruleOf<Type extends string>(value: unknown): RuleText<Type> {
  const given = map(value);
  return { ...given, name: text(given["name"]), type: text(given["type"]) as Type };
}

/** The steps of a workflow as it is written, as far as they can be read. */
export const stepsOf = (workflow: unknown): readonly StepText[] => list(map(workflow)["steps"]).map((one) => ruleOf<StepType>(one));

/** What a text says, as far as it can be read; what is missing is empty, and complained of. Whatever else is written stays. */
export function definitionOf(value: Record<string, unknown>): Definition {
  const stages = list(value["stages"]).map((one) => {
    const given = map(one);
    return { ...given, name: text(given["name"]), services: strings(given["services"]) };
  });
  const edges = list(value["edges"]).map((one) => {
    const given = map(one);
    return { ...given, from: text(given["from"]), to: text(given["to"]), gates: list(given["gates"]).map((gate) => ruleOf<GateType>(gate)) };
  });
  return { ...value, stages, edges };
}

function stageComplaints({ stages }: Definition, known: ReadonlySet<string>): string[] {
  const names = stages.map(({ name }) => name);
  return [
    ...(stages.length === 0 ? ["stages: name at least one"] : []),
    ...stages.flatMap(({ name, services, selector }, index) => [
      ...(name === "" ? [`stages[${index}]: it has no name`] : []),
      ...(names.indexOf(name) !== index && name !== "" ? [`stages[${index}]: ${name} is there already`] : []),
      ...(services.length === 0 && selector === undefined ? [`${name || `stages[${index}]`}: name at least one service, or a selector`] : []),
      ...services.filter((one) => !known.has(one)).map((one) => `${name}: no service ${one} here`),
    ]),
  ];
}

/** What is wrong with gates or steps at a place. */
function ruleComplaints(rules: readonly RuleText<string>[], place: string): string[] {
  return [
    ...rules.filter(({ name }) => name === "").map(() => `${place}: a gate or a step has no name`),
    ...rules.filter(({ job }) => isMap(job) && !isMap(job["manifest"])).map(({ name }) => `${name}: job.manifest has to be an object`),
    ...rules.flatMap((rule) => stepComplaints(rule, `${place}: ${rule.name}`)),
  ];
}

function stepComplaints(workflow: unknown, place: string): string[] {
  const steps = stepsOf(workflow);
  const names = new Set(steps.map(({ name }) => name));
  const missing = steps.flatMap(({ after }) => strings(after)).filter((one) => !names.has(one));
  return [...(steps.length === 0 ? [] : ruleComplaints(steps, place)), ...missing.map((one) => `${place}: there is no step ${one} to wait for`)];
}

function edgeComplaints({ stages, edges }: Definition): string[] {
  const names = new Set(stages.map(({ name }) => name));
  return edges.flatMap(({ from, to, gates }) => [
    ...[from, to].filter((end) => !names.has(end)).map((end) => `edges: no stage ${end || "without a name"}`),
    ...ruleComplaints(gates, `${from} → ${to}`),
  ]);
}

/** All that is wrong, each in a sentence. `services` are known as `cluster/name`. */
export function complaints(definition: Definition, services: readonly Choice[]): readonly string[] {
  return [
    ...stageComplaints(definition, new Set(services.map(({ name }) => name))),
    ...edgeComplaints(definition),
    ...definition.stages.flatMap(({ name, workflow }) => stepComplaints(workflow, `workflow of ${name}`)),
    ...conform(PIPELINE, "PipelineAttributes", attributesOf(definition, services)),
  ];
}

/** A manifest is written as an object; the API takes it as JSON text. */
function sent(gate: Rest): Rest {
  const steps = Array.isArray(gate["steps"]) ? { steps: (gate["steps"] as unknown[]).map((step) => (isMap(step) ? sent(step) : step)) } : {};
  const job = gate["job"];
  const isWritten = isMap(job) && isMap(job["manifest"]);
  return { ...gate, ...steps, ...(isWritten ? { job: { ...job, manifest: JSON.stringify(job["manifest"]) } } : {}) };
}

/** What the API takes. */
export function attributesOf({ stages, edges, ...begun }: Definition, services: readonly Choice[]): PipelineAttributes {
  const ids = new Map(services.map(({ id, name }) => [name, id]));
  return {
    ...begun,
    stages: stages.map(({ services: chosen, ...rest }) => ({
      ...rest,
      ...(rest["selector"] === undefined ? { services: chosen.map((one) => ({ serviceId: ids.get(one) ?? "" })) } : {}),
      ...(isMap(rest["workflow"]) ? { workflow: sent(rest["workflow"]) as PipelineWorkflowAttributes } : {}),
    })),
    edges: edges.map((edge) => ({ ...edge, gates: edge.gates.map((gate) => sent(gate) as PipelineGateAttributes) })),
  };
}

type Stage = PipelineDefinitionFragment["stages"][number];

// How a stage takes releases in, unless it is said.
const USUAL: Rest = { strategy: "ALL" };

/** Without what is empty, zero, or as it is anyway. */
function told(value: Rest): Rest {
  return Object.fromEntries(
    Object.entries(value).filter(([name, one]) => name !== "__typename" && one !== null && one !== 0 && one !== "" && !(Array.isArray(one) && one.length === 0) && USUAL[name] !== one),
  );
}

function proofText({ soakSeconds, maxRestarts, metric }: NonNullable<Stage["verification"]>): Rest {
  if (metric === null) return { soakSeconds, maxRestarts };
  const { address, query, comparison, threshold } = metric;
  return { soakSeconds, maxRestarts, metric: { address, query, comparison, threshold } };
}

function stageText({ name, services, serviceNames, selector, rollout, verification, git, workflow }: Stage): Rest {
  const how = told(rollout);
  const members =
    selector === null
      ? { services: services.map(({ service }) => `${service.cluster?.handle ?? ""}/${service.name}`) }
      : { serviceNames, selector: told({ ...selector, tags: selector.tags.map((tag) => ({ name: tag.name, value: tag.value })) }) };
  return {
    name,
    ...members,
    ...(Object.keys(how).length === 0 ? {} : { rollout: how }),
    ...(verification === null ? {} : { verification: proofText(verification) }),
    ...(git === null ? {} : { git: parsed(git) }),
    ...(workflow === null ? {} : { workflow: parsed(workflow.settings) }),
  };
}

const parsed = (settings: string): Rest => JSON.parse(settings) as Rest;

function triggerText({ name, type, settings, git }: PipelineDefinitionFragment["triggers"][number]): Rest {
  return { name, type, ...parsed(settings), ...(git === null ? {} : { git: parsed(git) }) };
}

/** A pipeline that is there, as somebody would have written it. */
export function written(pipeline: PipelineDefinitionFragment): string {
  return toYaml({
    stages: pipeline.stages.map(stageText),
    edges: pipeline.edges.map(({ from, to, gates }) => ({
      from: from.name,
      to: to.name,
      gates: gates.map(({ name, type, settings }) => ({ name, type, ...parsed(settings) })),
    })),
    ...(pipeline.onCommit ? {} : { onCommit: false }),
    ...(pipeline.triggers.length === 0 ? {} : { triggers: pipeline.triggers.map(triggerText) }),
  });
}
