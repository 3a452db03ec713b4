// Changes of sync options. The API replaces all of them together, so a change reads the present ones first.
import type { CombinedError } from "urql";
import { client } from "../api/client";
import { ChangeServiceDocument, SyncOptionsDocument, type ServiceUpdateAttributes, type SyncConfigAttributes, type SyncOptionsQuery } from "../api/generated";

type Options = NonNullable<SyncOptionsQuery["serviceDeployment"]>["syncConfig"];

/** Present options as input of the API. */
export function attributesOf({ diffNormalizers, healthRules, namespaceMetadata, ...plain }: Options): SyncConfigAttributes {
  const { createNamespace, driftPolicy, keepOnPrune, failOnConflict, replaceImmutable, waveTimeout, deletionBudget } = plain;
  return {
    createNamespace,
    driftPolicy,
    keepOnPrune,
    failOnConflict,
    replaceImmutable,
    waveTimeout,
    deletionBudget,
    diffNormalizers: diffNormalizers.map(({ group, kind, namespace, name, jsonPointers, managers }) => ({ group, kind, namespace, name, jsonPointers, managers })),
    healthRules: healthRules.map(({ group, kind, message, state, conditions }) => ({ group, kind, message, state, conditions: conditions.map(({ pointer, anyOf }) => ({ pointer, anyOf })) })),
    namespaceMetadata: namespaceMetadata === null ? null : { labels: JSON.stringify(namespaceMetadata.labels ?? {}), annotations: JSON.stringify(namespaceMetadata.annotations ?? {}) },
  };
}

/** Changes a service and some of its sync options; fails if another change comes between. Undefined: done. */
export async function changeSyncOptions(id: string, change: (options: SyncConfigAttributes) => SyncConfigAttributes, rest: Omit<ServiceUpdateAttributes, "syncConfig"> = {}): Promise<CombinedError | undefined> {
  const { data, error } = await client.query(SyncOptionsDocument, { id }, { requestPolicy: "network-only" }).toPromise();
  if (error !== undefined || data?.serviceDeployment == null) return error;
  const { syncConfig, updatedAt } = data.serviceDeployment;
  const attributes = { ...rest, syncConfig: change(attributesOf(syncConfig)) };
  const result = await client.mutation(ChangeServiceDocument, { id, attributes, unchangedSince: updatedAt }).toPromise();
  return result.error;
}
