import { useState, type SubmitEvent } from "react";
import { useMutation, useQuery, useSubscription } from "urql";
import { Link } from "wouter";
import { ClusterDeltaDocument, ClusterDocument, CreateClusterDocument, SigningKeyDocument } from "../api/generated";
import { counted } from "../text/counts";
import { textOf } from "../ui/form";
import { FormBar } from "../ui/FormBar";
import { Secret } from "../ui/Secret";
import { STATES } from "../ui/states";
import { Status } from "../ui/Status";
import { tagsOf } from "./tags";
import "./clusters.css";

/** Install command of an agent that pins the signing key with this fingerprint. */
export function installCommand(token: string, clusterId: string, fingerprint: string, adminRole: string): string {
  return [
    "helm upgrade --install towline-agent --namespace towline-agent --create-namespace \\",
    `  ${location.origin}/ext/v1/agent/chart \\`,
    `  --set secrets.deployToken=${token} --set consoleUrl=${location.origin} \\`,
    `  --set hub.signingKey=${fingerprint} \\`,
    `  --set clusterId=${clusterId} --set 'people.clusterRoles.towline:admins=${adminRole}'`,
  ].join("\n");
}

/** Command that runs the agent of a registered cluster with a kubeconfig. */
export function joinCommand(token: string, handle: string, adminRole: string): string {
  const folder = `~/.towline/agents/${handle}`;
  return [`towline login ${location.origin}`, `mkdir -p -m 700 ${folder} && printf %s ${token} > ${folder}/token`, `towline clusters join ${handle} --admin-role ${adminRole}`].join("\n");
}

const ADMIN_ROLES = ["admin", "cluster-admin", "edit", "view"] as const;

function Installation({ id, handle, token }: { readonly id: string; readonly handle: string; readonly token: string }) {
  const [{ data }] = useQuery({ query: SigningKeyDocument });
  const [adminRole, setAdminRole] = useState<string>(ADMIN_ROLES[0]);
  if (data === undefined) return null;
  const fingerprint = data.installation.signingKeyId;
  return (
    <li className="card">
      <h2>Install the agent</h2>
      <p className="quiet">Run this command with access to the cluster. The agent opens one outbound connection to the control plane; the cluster needs no inbound access.</p>
      <form className="form">
        <label>
          ClusterRole of administrators <small>for users with the role admin, through the Kubernetes proxy</small>
          <select value={adminRole} onChange={(event) => setAdminRole(event.target.value)}>
            {ADMIN_ROLES.map((role) => (
              <option key={role}>{role}</option>
            ))}
          </select>
        </label>
      </form>
      <p>
        Signing key <code>{fingerprint}</code>
      </p>
      <p className="quiet">The agent pins this key and refuses bundles and orders that another key has signed.</p>
      <p>
        Address for agents{" "}
        <code>
          {location.hostname}:{data.installation.agentsPort}
        </code>
      </p>
      <Secret title="Helm command" text={installCommand(token, id, fingerprint, adminRole)} />
      <details>
        <summary>Without Helm: run the agent on this machine</summary>
        <p className="quiet">The agent uses your kubeconfig and runs until you stop it, such as for kind, k3s or a trial.</p>
        <pre className="block">{joinCommand(token, handle, adminRole)}</pre>
      </details>
    </li>
  );
}

/** Steps that find the reason why an agent does not connect. */
function Checklist() {
  return (
    <details>
      <summary>Nothing arrives?</summary>
      <ol className="checklist">
        <li>
          The Pod of the agent runs: <pre className="block">kubectl -n towline-agent get pods</pre>
        </li>
        <li>
          Its log names no error: <pre className="block">kubectl -n towline-agent logs deploy/towline-agent --tail 20</pre>
        </li>
        <li>
          Name, port, certificate, token and API server are right: <pre className="block">kubectl -n towline-agent exec deploy/towline-agent -- towline agent doctor</pre>
        </li>
        <li>The network of the cluster permits outbound TCP connections to the address for agents above.</li>
      </ol>
    </details>
  );
}

function Connection({ id, handle }: { readonly id: string; readonly handle: string }) {
  const [{ data }] = useQuery({ query: ClusterDocument, variables: { handle } });
  useSubscription({ query: ClusterDeltaDocument, variables: { id } });
  const cluster = data?.cluster;
  const isConnected = cluster?.pingedAt != null;
  if (!isConnected)
    return (
      <li className="card" aria-live="polite">
        <h2>Connection</h2>
        <Status state={STATES.waitingForAgent} />
        <p className="quiet">This page updates when the agent connects.</p>
        <Checklist />
      </li>
    );
  return (
    <li className="card done" aria-live="polite">
      <h2>Connection</h2>
      <p className="connected">
        <Status state={STATES.connected} /> Kubernetes {cluster.currentVersion ?? "…"}, {cluster.nodeCount === null ? "… nodes" : counted(cluster.nodeCount, "node")}, agent {cluster.agentVersion ?? "…"}
      </p>
      <div className="bar">
        <Link className="button primary" href={`/services/new?cluster=${encodeURIComponent(handle)}`}>
          Create service
        </Link>
        <Link className="button" href={`/clusters/${handle}`}>
          Open cluster
        </Link>
      </div>
    </li>
  );
}

function Heading({ handle }: { readonly handle: string }) {
  const [{ data }] = useQuery({ query: ClusterDocument, variables: { handle } });
  return (
    <h1>
      {handle} <Status state={data?.cluster?.pingedAt == null ? STATES.waitingForAgent : STATES.connected} pill />
    </h1>
  );
}

/** Registers a cluster, shows the install command and waits for the agent. */
export function RegisterClusterPage() {
  const [{ data, error, fetching }, create] = useMutation(CreateClusterDocument);
  const [isOpen, setOpen] = useState(true);
  const created = data?.createCluster;
  const submit = async (event: SubmitEvent<HTMLFormElement>) => {
    event.preventDefault();
    const form = new FormData(event.currentTarget);
    const result = await create({ attributes: { name: textOf(form, "name"), tags: tagsOf(textOf(form, "tags")) } });
    if (result.error === undefined) setOpen(false);
  };
  return (
    <>
      <p className="crumbs">
        <Link href="/clusters">Clusters</Link>
      </p>
      {created == null ? <h1>Register cluster</h1> : <Heading handle={created.handle} />}
      <ol className="steps">
        <li className={created == null ? "card" : "card done"}>
          <h2>Name</h2>
          {isOpen ? (
            <form className="form" onSubmit={(event) => void submit(event)}>
              <label>
                Name
                <input name="name" required maxLength={255} autoFocus placeholder="prod-eu" />
              </label>
              <label>
                Tags <small>used by cluster selectors; name=value, separated by spaces</small>
                <input name="tags" placeholder="region=eu-west stage=prod" />
              </label>
              <FormBar action="Register cluster" busy={fetching} error={error} />
            </form>
          ) : (
            <p>{created?.handle}</p>
          )}
        </li>
        {created?.deployToken != null && (
          <>
            <Installation id={created.id} handle={created.handle} token={created.deployToken} />
            <Connection id={created.id} handle={created.handle} />
          </>
        )}
      </ol>
    </>
  );
}
