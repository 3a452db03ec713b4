// Actions on the whole installation.
import { RotateEncryptionKeysDocument, UpdateAgentSettingsDocument, type AgentSettingsQuery } from "../api/generated";
import type { Action } from "../manage/kind";
import { flag, text } from "../manage/values";

export type AgentSettings = NonNullable<AgentSettingsQuery["deploymentSettings"]>;

export const ROTATE: Action<null> = {
  title: "Rotate encryption key",
  permission: { verb: "ADMINISTER", kind: "INSTALLATION", everywhere: true },
  consequence: () => "Creates a new data key. Towline encrypts all stored secrets again in the background; nothing is unavailable meanwhile.",
  command: () => ["secrets", "rotate-keys"],
  run: (client) => client.mutation(RotateEncryptionKeysDocument, {}).toPromise(),
  done: "Encryption key rotated",
};

export const EDIT_AGENTS: Action<AgentSettings> = {
  title: "Edit agent values",
  permission: { verb: "ADMINISTER", kind: "INSTALLATION", everywhere: true },
  consequence: () => "New installations of agents get these Helm values. Installed agents keep theirs.",
  fields: [
    { path: "values", title: "Helm values", of: "long" },
    { path: "templated", title: "Replace placeholders of the cluster", of: "check" },
  ],
  initial: ({ agentHelmValues, agentHelmValuesTemplateable }) => ({ values: agentHelmValues ?? "", templated: agentHelmValuesTemplateable === true }),
  run: (client, values) => client.mutation(UpdateAgentSettingsDocument, { attributes: { agentHelmValues: text(values, "values"), agentHelmValuesTemplateable: flag(values, "templated") } }).toPromise(),
  done: "Agent values updated",
};
