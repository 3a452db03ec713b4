"""The operations of the matrix with the official Python client: KUBECONFIG NAMESPACE.

Prints one JSON object: the result of each operation, without what differs from object to object.
"""

import json
import sys
from collections.abc import Callable
from functools import partial

from kubernetes import client, config, watch
from kubernetes.client.exceptions import ApiException
from kubernetes.stream import stream

Operation = Callable[[], object]


def main(kubeconfig: str, namespace: str) -> None:
    """Runs all operations in their order."""
    config.load_kube_config(kubeconfig)
    found = {}
    for name, operation in {**_maps(namespace), **_others(namespace)}.items():
        try:
            found[name] = operation()
        except Exception as error:
            found[name] = f"{type(error).__name__}: {str(error)[:200]}"
    print(json.dumps(found))


def _maps(namespace: str) -> dict[str, Operation]:
    core = client.CoreV1Api()
    listed = partial(core.list_namespaced_config_map, namespace, label_selector="set=x")
    patched = partial(core.patch_namespaced_config_map, "a", namespace)

    def create() -> object:
        for name in ("a", "b", "c"):
            metadata = client.V1ObjectMeta(name=name, labels={"set": "x"})
            core.create_namespaced_config_map(
                namespace, client.V1ConfigMap(metadata=metadata, data={"k": name})
            )
        return core.read_namespaced_config_map("b", namespace).data

    def pages() -> object:
        first = listed(limit=2)
        rest = listed(limit=2, _continue=first.metadata._continue)
        return [item.metadata.name for item in first.items + rest.items]

    def watched() -> object:
        found = watch.Watch().stream(
            core.list_namespaced_config_map, namespace, label_selector="set=x", timeout_seconds=2
        )
        return sorted(event["object"].metadata.name for event in found)

    def conflict() -> object:
        try:
            metadata = client.V1ObjectMeta(name="a")
            core.create_namespaced_config_map(namespace, client.V1ConfigMap(metadata=metadata))
        except ApiException as error:
            return [error.status, json.loads(error.body or "{}").get("reason")]
        return None

    replaced = [{"op": "replace", "path": "/data/k", "value": "1"}]
    return {
        "create and get": create,
        "pages": pages,
        "JSON patch": lambda: patched(replaced).data,
        "strategic merge patch": lambda: patched({"data": {"l": "2"}}).data,
        "conflict": conflict,
        "watch": watched,
        "delete many": lambda: (
            core.delete_collection_namespaced_config_map(namespace, label_selector="set=x").kind
        ),
    }


def _others(namespace: str) -> dict[str, Operation]:
    core, access = client.CoreV1Api(), client.RbacAuthorizationV1Api()

    def run() -> object:
        command = ["echo", "hello"]
        return stream(
            core.connect_get_namespaced_pod_exec, "box", namespace, command=command, stdout=True
        )

    return {
        "version": lambda: client.VersionApi().get_code().git_version,
        "name with a colon": lambda: access.read_cluster_role("system:node").metadata.name,
        "logs": lambda: bool(core.read_namespaced_pod_log("box", namespace)),
        "exec": run,
    }


if __name__ == "__main__":
    main(*sys.argv[1:])
