// Pipeline definition in the editor: parsing, validation and conversion to API input.
import type { GateType, PipelineAttributes, PipelineDefinitionFragment, PipelineGateAttributes, PipelineWorkflowAttributes, StepType } from "../api/generated";
import { PIPELINE } from "../api/inputs";
import { GATE_KINDS, STEP_KINDS } from "../api/kinds";
import { validateInput } from "../text/validate";
import { toYaml } from "../text/yaml";
import { at, withAt } from "./gatekinds";

export type Choice = { readonly id: string; readonly name: string };

type Rest = Readonly<Record<string, unknown>>;
export type RuleText<Type extends string> = Rest & { readonly name: string; readonly type: Type };
export type GateText = RuleText<GateType>;
export type StepText = RuleText<StepType>;
type StageText = Rest & { readonly name: string; readonly services: readonly string[] };
type EdgeText = Rest & { readonly from: string; readonly to: string; readonly gates: readonly GateText[] };
export type Definition = Rest & { readonly stages: readonly StageText[]; readonly edges: readonly EdgeText[] };

// Settings that users write as mappings, and the API takes as JSON text.
const OBJECTS = [...new Set([...Object.values(GATE_KINDS), ...Object.values(STEP_KINDS)].flatMap(({ fields }) => fields.filter(({ of }) => of === "yaml").map(({ path }) => path)))];

const isMap = (value: unknown): value is Record<string, unknown> => typeof value === "object" && value !== null && !Array.isArray(value);
const map = (value: unknown): Record<string, unknown> => (isMap(value) ? value : {});
const list = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value : []);
const text = (value: unknown): string => (typeof value === "string" ? value : "");
const strings = (value: unknown): string[] => list(value).filter((item) => typeof item === "string");

function ruleOf<Type extends string>(value: unknown): RuleText<Type> {
  const given = map(value);
  return { ...given, name: text(given["name"]), type: text(given["type"]) as Type };
}

/** Steps of a workflow, as far as they can be parsed. */
export const stepsOf = (workflow: unknown): readonly StepText[] => list(map(workflow)["steps"]).map((step) => ruleOf<StepType>(step));

/** Parses a definition as far as possible. Missing values become empty and fail validation; unknown fields stay. */
export function definitionOf(value: Record<string, unknown>): Definition {
  const stages = list(value["stages"]).map((stage) => {
    const given = map(stage);
    return { ...given, name: text(given["name"]), services: strings(given["services"]) };
  });
  const edges = list(value["edges"]).map((edge) => {
    const given = map(edge);
    return { ...given, from: text(given["from"]), to: text(given["to"]), gates: list(given["gates"]).map((gate) => ruleOf<GateType>(gate)) };
  });
  return { ...value, stages, edges };
}

function stageComplaints({ stages }: Definition, known: ReadonlySet<string>): string[] {
  const names = stages.map(({ name }) => name);
  return [
    ...(stages.length === 0 ? ["stages: at least one is required"] : []),
    ...stages.flatMap(({ name, services, selector }, index) => [
      ...(name === "" ? [`stages[${index}]: name is required`] : []),
      ...(names.indexOf(name) !== index && name !== "" ? [`stages[${index}]: duplicate name ${name}`] : []),
      ...(services.length === 0 && selector === undefined ? [`${name || `stages[${index}]`}: at least one service or a selector is required`] : []),
      ...services.filter((service) => !known.has(service)).map((service) => `${name}: service ${service} not found`),
    ]),
  ];
}

/** Validation errors of gates or steps. */
function ruleComplaints(rules: readonly RuleText<string>[], place: string): string[] {
  return [
    ...rules.filter(({ name }) => name === "").map(() => `${place}: a gate or step has no name`),
    ...rules.flatMap((rule) => OBJECTS.filter((path) => !isMap(at(rule, path) ?? {})).map((path) => `${rule.name}: ${path} must be a mapping`)),
    // Names of services are labels: with a cluster in front, the gate would wait forever.
    ...rules.filter(({ version }) => text(map(version)["service"]).includes("/")).map(({ name }) => `${name}: version.service must be a service name without a cluster`),
    ...rules.flatMap((rule) => stepComplaints(rule, `${place}: ${rule.name}`)),
  ];
}

function stepComplaints(workflow: unknown, place: string): string[] {
  const steps = stepsOf(workflow);
  const names = new Set(steps.map(({ name }) => name));
  const missing = steps.flatMap(({ after }) => strings(after)).filter((step) => !names.has(step));
  return [...(steps.length === 0 ? [] : ruleComplaints(steps, place)), ...missing.map((step) => `${place}: step ${step} in "after" not found`)];
}

function edgeComplaints({ stages, edges }: Definition): string[] {
  const names = new Set(stages.map(({ name }) => name));
  return edges.flatMap(({ from, to, gates }) => [
    ...[from, to].filter((end) => !names.has(end)).map((end) => `edges: stage ${end || "without a name"} not found`),
    ...ruleComplaints(gates, `${from} → ${to}`),
  ]);
}

/** All validation errors, one sentence each. `services` are named `cluster/name`. */
export function complaints(definition: Definition, services: readonly Choice[]): readonly string[] {
  return [
    ...stageComplaints(definition, new Set(services.map(({ name }) => name))),
    ...edgeComplaints(definition),
    ...definition.stages.flatMap(({ name, workflow }) => stepComplaints(workflow, `workflow of ${name}`)),
    ...validateInput(PIPELINE, "PipelineAttributes", attributesOf(definition, services)),
  ];
}

/** Converts objects, such as the manifest of a job, to JSON text. */
function withJsonObjects(gate: Rest): Rest {
  const steps = Array.isArray(gate["steps"]) ? { steps: (gate["steps"] as unknown[]).map((step) => (isMap(step) ? withJsonObjects(step) : step)) } : {};
  return OBJECTS.reduce(
    (changed, path) => {
      const object = at(changed, path);
      return isMap(object) ? withAt(changed, path, JSON.stringify(object)) : changed;
    },
    { ...gate, ...steps },
  );
}

/** Input of the API. */
export function attributesOf({ stages, edges, ...settings }: Definition, services: readonly Choice[]): PipelineAttributes {
  const ids = new Map(services.map(({ id, name }) => [name, id]));
  return {
    ...settings,
    stages: stages.map(({ services: chosen, ...rest }) => ({
      ...rest,
      ...(rest["selector"] === undefined ? { services: chosen.map((service) => ({ serviceId: ids.get(service) ?? "" })) } : {}),
      ...(isMap(rest["workflow"]) ? { workflow: withJsonObjects(rest["workflow"]) as PipelineWorkflowAttributes } : {}),
    })),
    edges: edges.map((edge) => ({ ...edge, gates: edge.gates.map((gate) => withJsonObjects(gate) as PipelineGateAttributes) })),
  };
}

type Stage = PipelineDefinitionFragment["stages"][number];

// Defaults of a stage's rollout.
const DEFAULTS: Rest = { strategy: "ALL", silentDeadlineSeconds: 1800, maxSilentPercent: 50 };

/** Removes empty and default values. Zero is a default, unless another one is listed. */
function withoutDefaults(value: Rest): Rest {
  const isDefault = (name: string, setting: unknown) => setting === (name in DEFAULTS ? DEFAULTS[name] : 0);
  return Object.fromEntries(
    Object.entries(value).filter(([name, setting]) => name !== "__typename" && setting !== null && setting !== "" && !(Array.isArray(setting) && setting.length === 0) && !isDefault(name, setting)),
  );
}

function verificationText({ soakSeconds, maxRestarts, metric }: NonNullable<Stage["verification"]>): Rest {
  if (metric === null) return { soakSeconds, maxRestarts };
  const { address, query, comparison, threshold } = metric;
  return { soakSeconds, maxRestarts, metric: { address, query, comparison, threshold } };
}

function stageText({ name, services, serviceNames, selector, rollout, verification, git, workflow }: Stage): Rest {
  const how = withoutDefaults(rollout);
  const members =
    selector === null
      ? { services: services.map(({ service }) => `${service.cluster?.handle ?? ""}/${service.name}`) }
      : { serviceNames, selector: withoutDefaults({ ...selector, tags: selector.tags.map((tag) => ({ name: tag.name, value: tag.value })) }) };
  return {
    name,
    ...members,
    ...(Object.keys(how).length === 0 ? {} : { rollout: how }),
    ...(verification === null ? {} : { verification: verificationText(verification) }),
    ...(git === null ? {} : { git: parsed(git) }),
    ...(workflow === null ? {} : { workflow: parsed(workflow.settings) }),
  };
}

const parsed = (settings: string): Rest => JSON.parse(settings) as Rest;

function triggerText({ name, type, settings, git }: PipelineDefinitionFragment["triggers"][number]): Rest {
  return { name, type, ...parsed(settings), ...(git === null ? {} : { git: parsed(git) }) };
}

/** YAML of an existing pipeline. */
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
