import type { DeploymentsQuery } from "../api/generated";
import { seconds } from "./format";
import { STATES, type State } from "../ui/states";

export type Deployment = DeploymentsQuery["deploymentHistory"][number];

/** Result of a deployment. */
export function resultOf({ healthyAt, failedAt, revertedAt, replacedAt }: Pick<Deployment, "healthyAt" | "failedAt" | "revertedAt" | "replacedAt">): State {
  if (revertedAt !== null) return STATES.rolledBack;
  if (failedAt !== null && (healthyAt === null || failedAt > healthyAt)) return STATES.failed;
  if (healthyAt !== null) return STATES.healthy;
  return replacedAt === null ? STATES.progressing : STATES.superseded;
}

/** Time from the new desired state to health; empty before it is healthy. */
export const took = ({ desiredAt, healthyAt }: Pick<Deployment, "desiredAt" | "healthyAt">): string => (healthyAt === null ? "" : seconds((new Date(healthyAt).getTime() - new Date(desiredAt).getTime()) / 1000));

/** Deployments by cluster, those with the most deployments first. */
export function lanesOf(deployments: readonly Deployment[]): readonly (readonly [string, readonly Deployment[]])[] {
  const lanes = new Map<string, Deployment[]>();
  for (const deployment of deployments) {
    const name = deployment.cluster ?? "deleted cluster";
    lanes.set(name, [...(lanes.get(name) ?? []), deployment]);
  }
  return [...lanes].sort(([, left], [, right]) => right.length - left.length);
}
