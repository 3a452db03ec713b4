// The operations of the matrix with the official JavaScript client: KUBECONFIG NAMESPACE.
// Prints one JSON object: the result of each operation.
import { PassThrough } from "node:stream";
import * as k8s from "@kubernetes/client-node";

const [kubeconfig, namespace] = process.argv.slice(2);
const config = new k8s.KubeConfig();
config.loadFromFile(kubeconfig);
const core = config.makeApiClient(k8s.CoreV1Api);
const access = config.makeApiClient(k8s.RbacAuthorizationV1Api);
const labelSelector = "set=x";

const patch = (type, body) =>
  core
    .patchNamespacedConfigMap({ name: "a", namespace, body }, k8s.setHeaderOptions("Content-Type", type))
    .then((found) => found.data);

const operations = {
  version: () => config.makeApiClient(k8s.VersionApi).getCode().then((found) => found.gitVersion),
  "name with a colon": () =>
    access.readClusterRole({ name: "system:node" }).then((found) => found.metadata.name),
  "create and get": async () => {
    for (const name of ["a", "b", "c"]) {
      const body = { metadata: { name, labels: { set: "x" } }, data: { k: name } };
      await core.createNamespacedConfigMap({ namespace, body });
    }
    return (await core.readNamespacedConfigMap({ name: "b", namespace })).data;
  },
  pages: async () => {
    const first = await core.listNamespacedConfigMap({ namespace, labelSelector, limit: 2 });
    const rest = await core.listNamespacedConfigMap({
      namespace, labelSelector, limit: 2, _continue: first.metadata._continue,
    });
    return [...first.items, ...rest.items].map((item) => item.metadata.name);
  },
  "JSON patch": () =>
    patch("application/json-patch+json", [{ op: "replace", path: "/data/k", value: "1" }]),
  "strategic merge patch": () =>
    patch("application/strategic-merge-patch+json", { data: { l: "2" } }),
  conflict: () =>
    core
      .createNamespacedConfigMap({ namespace, body: { metadata: { name: "a" } } })
      .catch((error) => [error.code, JSON.parse(error.body).reason]),
  watch: () =>
    new Promise((resolve, reject) => {
      const names = [];
      const path = `/api/v1/namespaces/${namespace}/configmaps`;
      new k8s.Watch(config).watch(
        path,
        { labelSelector, timeoutSeconds: 2 },
        (_, item) => names.push(item.metadata.name),
        (error) => (error ? reject(error) : resolve(names.sort())),
      );
    }),
  exec: () =>
    new Promise((resolve, reject) => {
      let text = "";
      const output = new PassThrough();
      output.on("data", (piece) => (text += piece));
      new k8s.Exec(config)
        .exec(namespace, "box", "main", ["echo", "hello"], output, null, null, false, () => resolve(text))
        .catch(reject);
    }),
  logs: () => core.readNamespacedPodLog({ name: "box", namespace }).then((text) => text.length > 0),
  "delete many": () =>
    core.deleteCollectionNamespacedConfigMap({ namespace, labelSelector }).then((found) => found.kind),
};

const found = {};
for (const [name, operation] of Object.entries(operations)) {
  try {
    found[name] = (await operation()) ?? null;
  } catch (error) {
    found[name] = `${error.name}: ${String(error.message).slice(0, 200)}`;
  }
}
console.log(JSON.stringify(found));
process.exit(0);
