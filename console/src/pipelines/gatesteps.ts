// Steps of a gate, with their settings and their progress.
import type { GateFullFragment, GateMeasurementsQuery } from "../api/generated";
import { CHECKS, GATE_KINDS, STEP_KINDS } from "../api/kinds";
import { at } from "./gatekinds";
import type { Limit } from "./limits";

type Check = GateFullFragment["checks"][number];
export type Measured = GateMeasurementsQuery["gateMeasurements"];
type Settings = Readonly<Record<string, unknown>>;

export type GateStep = {
  readonly name: string;
  readonly title: string;
  readonly after: readonly string[];
  /** Null: not started. */
  readonly check: Check | null;
  /** Limit of a METRIC step. */
  readonly limit: Limit | null;
  readonly measured: Measured;
};

const isText = (value: unknown): value is string => typeof value === "string";

function limitOf(settings: Settings): Limit | null {
  const threshold = at(settings, "metric.threshold");
  const comparison = at(settings, "metric.comparison");
  return typeof threshold === "number" ? { threshold, comparison: isText(comparison) ? comparison : "AT_MOST" } : null;
}

const TITLES: Readonly<Record<string, string>> = Object.fromEntries(Object.entries(STEP_KINDS).map(([type, { title }]) => [type, title]));
const titleOf = (type: unknown): string => (isText(type) ? (TITLES[type] ?? type) : "");

/** Steps in the order of the settings; one for a gate with a single check, none for other kinds. */
export function stepsOf({ type, checks, settings }: Pick<GateFullFragment, "type" | "checks" | "settings">, measured: Measured): readonly GateStep[] {
  const parsed = JSON.parse(settings) as Settings;
  if (type !== "WORKFLOW") {
    return CHECKS.includes(type) ? [{ name: type, title: GATE_KINDS[type].title, after: [], check: checks[0] ?? null, limit: limitOf(parsed), measured }] : [];
  }
  const steps = Array.isArray(parsed["steps"]) ? (parsed["steps"] as Settings[]) : [];
  return steps.map((step) => {
    const name = isText(step["name"]) ? step["name"] : "";
    return {
      name,
      title: titleOf(step["type"]),
      after: Array.isArray(step["after"]) ? step["after"].filter(isText) : [],
      check: checks.find((check) => check.step === name) ?? null,
      limit: limitOf(step),
      measured: measured.filter(({ step: owner }) => owner === name),
    };
  });
}
