// A pipeline as somebody writes it: what is wrong with it, and what the API is told.
import type { GateType, PipelineAttributes, PipelineBoardFragment } from "../api/generated";
import { toYaml } from "../text/yaml";

export type Choice = { readonly id: string; readonly name: string };

type GateText = { readonly name: string; readonly type: GateType; readonly quorum?: number; readonly notAuthor?: boolean; readonly soakSeconds?: number };
type StageText = { readonly name: string; readonly services: readonly string[] };
type EdgeText = { readonly from: string; readonly to: string; readonly gates: readonly GateText[] };
export type Definition = { readonly stages: readonly StageText[]; readonly edges: readonly EdgeText[] };

const isMap = (value: unknown): value is Record<string, unknown> => typeof value === "object" && value !== null && !Array.isArray(value);
const list = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value : []);
const text = (value: unknown): string => (typeof value === "string" ? value : "");
const strings = (value: unknown): string[] => list(value).filter((one) => typeof one === "string");

function gateOf(value: unknown): GateText {
  const given = isMap(value) ? value : {};
  return {
    name: text(given["name"]),
    type: text(given["type"]) as GateType,
    ...(typeof given["quorum"] === "number" ? { quorum: given["quorum"] } : {}),
    ...(typeof given["notAuthor"] === "boolean" ? { notAuthor: given["notAuthor"] } : {}),
    ...(typeof given["soakSeconds"] === "number" ? { soakSeconds: given["soakSeconds"] } : {}),
  };
}

/** What a text says, as far as it can be read; what is missing is empty, and complained of. */
export function definitionOf(value: Record<string, unknown>): Definition {
  const stages = list(value["stages"]).map((one) => {
    const given = isMap(one) ? one : {};
    return { name: text(given["name"]), services: strings(given["services"]) };
  });
  const edges = list(value["edges"]).map((one) => {
    const given = isMap(one) ? one : {};
    return { from: text(given["from"]), to: text(given["to"]), gates: list(given["gates"]).map(gateOf) };
  });
  return { stages, edges };
}

function stageComplaints({ stages }: Definition, known: ReadonlySet<string>): string[] {
  const names = stages.map(({ name }) => name);
  return [
    ...(stages.length === 0 ? ["stages: name at least one"] : []),
    ...stages.flatMap(({ name, services }, index) => [
      ...(name === "" ? [`stages[${index}]: it has no name`] : []),
      ...(names.indexOf(name) !== index && name !== "" ? [`stages[${index}]: ${name} is there already`] : []),
      ...(services.length === 0 ? [`${name || `stages[${index}]`}: name at least one service`] : []),
      ...services.filter((one) => !known.has(one)).map((one) => `${name}: no service ${one} here`),
    ]),
  ];
}

function edgeComplaints({ stages, edges }: Definition, types: readonly GateType[]): string[] {
  const names = new Set(stages.map(({ name }) => name));
  return edges.flatMap(({ from, to, gates }) => [
    ...[from, to].filter((end) => !names.has(end)).map((end) => `edges: no stage ${end || "without a name"}`),
    ...gates.filter(({ name }) => name === "").map(() => `${from} → ${to}: a gate has no name`),
    ...gates.filter(({ type }) => !types.includes(type)).map(({ name, type }) => `${name}: ${type} is no type of gate that is written here: ${types.join(", ")}`),
  ]);
}

/** All that is wrong, each in a sentence. `services` are known as `cluster/name`. */
export function complaints(definition: Definition, services: readonly Choice[], types: readonly GateType[]): readonly string[] {
  return [...stageComplaints(definition, new Set(services.map(({ name }) => name))), ...edgeComplaints(definition, types)];
}

/** What the API takes. */
export function attributesOf({ stages, edges }: Definition, services: readonly Choice[]): PipelineAttributes {
  const ids = new Map(services.map(({ id, name }) => [name, id]));
  return {
    stages: stages.map(({ name, services: chosen }) => ({ name, services: chosen.map((one) => ({ serviceId: ids.get(one) ?? "" })) })),
    edges: edges.map(({ from, to, gates }) => ({ from, to, gates: gates.map((gate) => ({ ...gate })) })),
  };
}

/** A pipeline that is there, as somebody would have written it. */
export function written(pipeline: PipelineBoardFragment): string {
  return toYaml({
    stages: pipeline.stages.map(({ name, services }) => ({
      name,
      services: services.map(({ service }) => `${service.cluster?.handle ?? ""}/${service.name}`),
    })),
    edges: pipeline.edges.map(({ from, to, gates }) => ({
      from: from.name,
      to: to.name,
      gates: gates.map(({ name, type, quorum, notAuthor, soakSeconds }) => ({
        name,
        type,
        ...(type === "APPROVAL" && quorum !== null ? { quorum } : {}),
        ...(type === "APPROVAL" && notAuthor !== null ? { notAuthor } : {}),
        ...(type === "SOAK" && soakSeconds !== null ? { soakSeconds } : {}),
      })),
    })),
  });
}
