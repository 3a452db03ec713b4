// Kubeconfigs without a secret: an exec plug-in of the CLI provides the token.
import { toYaml } from "../text/yaml";

/** URL of a cluster: with a domain of clusters, the host names the cluster instead of the path. */
function server(origin: string, handle: string, clusterDomain: string | null): string {
  if (clusterDomain === null) return `${origin}/k8s/clusters/${handle}`;
  const { protocol, port } = new URL(origin);
  return `${protocol}//${handle}.${clusterDomain}${port === "" ? "" : `:${port}`}`;
}

/** Kubeconfig with one context per cluster, `towline-<handle>`. `origin` is the URL of the control plane. */
export function kubeconfig(origin: string, handles: readonly string[], clusterDomain: string | null): string {
  const name = (handle: string) => `towline-${handle}`;
  return toYaml({
    apiVersion: "v1",
    kind: "Config",
    clusters: handles.map((handle) => ({ name: name(handle), cluster: { server: server(origin, handle, clusterDomain) } })),
    users: [
      {
        name: "towline",
        user: {
          exec: {
            apiVersion: "client.authentication.k8s.io/v1",
            command: "towline-kubectl-login",
            args: [origin],
            interactiveMode: "IfAvailable",
          },
        },
      },
    ],
    contexts: handles.map((handle) => ({ name: name(handle), context: { cluster: name(handle), user: "towline" } })),
  });
}
