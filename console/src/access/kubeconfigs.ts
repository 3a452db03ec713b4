// Kubeconfigs that name the way and no secret: a plug-in of the command line brings the token.
import { toYaml } from "../text/yaml";

/** One context a cluster, named `towline-<handle>`. `origin` is where this installation is reached. */
export function kubeconfig(origin: string, handles: readonly string[]): string {
  const name = (handle: string) => `towline-${handle}`;
  return toYaml({
    apiVersion: "v1",
    kind: "Config",
    clusters: handles.map((handle) => ({ name: name(handle), cluster: { server: `${origin}/k8s/clusters/${handle}` } })),
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
