import { useQuery } from "urql";
import { AgentSettingsDocument, EncryptionKeysDocument, InstallationDocument } from "../api/generated";
import { Actions } from "../manage/Actions";
import { AsYaml } from "../manage/AsYaml";
import { Facts } from "../manage/Facts";
import { Age } from "../ui/Age";
import { Problem } from "../ui/Problem";
import { Skeleton } from "../ui/Skeleton";
import { STATES } from "../ui/states";
import { Status } from "../ui/Status";
import { Table } from "../ui/Table";
import { EDIT_AGENTS, ROTATE } from "./actions";

function EncryptionKeys() {
  const [{ data, error }] = useQuery({ query: EncryptionKeysDocument });
  if (error !== undefined && data == null) return <Problem error={error} />;
  if (data == null) return <Skeleton lines={3} />;
  const { keys, outdated, kek, undecryptable, currentId } = data.encryptionKeys;
  return (
    <>
      <Facts
        facts={[
          ["Key encryption key", kek],
          ["Values with an old key", outdated.toLocaleString("en")],
          ["Values without a usable key", undecryptable.join(", ")],
        ]}
      />
      {keys.length > 0 && (
        <Table label="Data keys" titles={["Key", "State", "Created"]}>
          {keys.map(({ id, insertedAt }) => (
            <tr key={id}>
              <td>
                <code>{id}</code>
              </td>
              <td>
                <Status state={id === currentId ? STATES.current : STATES.superseded} />
              </td>
              <td>
                <Age at={insertedAt} />
              </td>
            </tr>
          ))}
        </Table>
      )}
    </>
  );
}

function AgentSettings() {
  const [{ data, error }] = useQuery({ query: AgentSettingsDocument });
  if (error !== undefined && data == null) return <Problem error={error} />;
  if (data == null) return <Skeleton lines={3} />;
  if (data.deploymentSettings === null) return <p className="quiet">No settings.</p>;
  const { agentHelmValues } = data.deploymentSettings;
  return (
    <>
      {agentHelmValues ? <pre className="block">{agentHelmValues}</pre> : <p className="quiet">No additional Helm values.</p>}
      <div className="bar">
        <Actions actions={[EDIT_AGENTS]} node={data.deploymentSettings} />
        <AsYaml kind="AgentSettings" name="global" />
      </div>
    </>
  );
}

/** Version, signing key, encryption keys and settings of agent installations. */
export function InstallationPage() {
  const [{ data, error }] = useQuery({ query: InstallationDocument });
  return (
    <div className="stack">
      <h1>Installation</h1>
      <section className="card stack">
        <h2>Control plane</h2>
        {error !== undefined && data == null && <Problem error={error} />}
        {data == null ? (
          error === undefined && <Skeleton lines={3} />
        ) : (
          <Facts
            facts={[
              ["Version", data.installation.version],
              ["Address", location.origin],
              ["Port for agents", data.installation.agentsPort],
              ["Signing key", <code key="key">{data.installation.signingKeyId}</code>],
            ]}
          />
        )}
      </section>
      <section className="card stack">
        <h2>Encryption keys</h2>
        <EncryptionKeys />
        <div className="bar">
          <Actions actions={[ROTATE]} node={null} />
        </div>
      </section>
      <section className="card stack">
        <h2>Agent installations</h2>
        <AgentSettings />
      </section>
    </div>
  );
}
