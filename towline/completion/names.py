"""Names of resources for completion: from the control plane, kept for a short time in a file.

Imports little, because a shell calls it at each press of the tab key.
"""

import json
import os
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from hashlib import sha256

from core.json_object import JsonObject
from towline.contexts import ControlPlaneTarget, FilePath

TIMEOUT_SECONDS = 1.0
SECONDS_KEPT = 20
_PAGE = 100
# Field and name of each kind; the API filters by the typed text, except roles.
QUERIES = {
    "cluster-groups": ("clusterGroups", "name"),
    "cluster-sources": ("clusterSources", "name"),
    "clusters": ("clusters", "handle"),
    "config-sources": ("configurationSources", "name"),
    "globals": ("globalServices", "name"),
    "groups": ("groups", "name"),
    "helm-repos": ("helmRepositories", "url"),
    "namespaces": ("managedNamespaces", "name"),
    "oci-repos": ("ociRepositories", "url"),
    "pipelines": ("pipelines", "name"),
    "projects": ("projects", "name"),
    "repos": ("gitRepositories", "url"),
    "roles": ("roles", "name"),
    "routers": ("notificationRouters", "name"),
    "secrets": ("secrets", "name"),
    "services": ("serviceDeployments", "name cluster { handle }"),
    "sets": ("serviceSets", "name"),
    "sinks": ("notificationSinks", "name"),
    "users": ("users", "email"),
}


def names(
    kind: str,
    typed: str,
    target: ControlPlaneTarget,
    config_file: FilePath,
    now: Callable[[], float] = time.time,  # noqa: TID251 - the Clock imports asyncio: 25 ms
) -> list[str]:
    """Names that contain the typed text.

    `config_file`: each user of it has a file of cached names in its folder.
    """
    text = typed.rpartition("/")[2] if kind == "services" else typed
    path = _cache_path(target, config_file)
    cached = _fresh_entries(path, now())
    for end in range(len(text) + 1):
        _, matching = cached.get(f"{kind} {text[:end]}", (0, None))
        # Fewer names than a page are all names, also those that contain a longer text.
        if matching is not None and (end == len(text) or len(matching) < _PAGE):
            return matching
    matching = _query_names(kind, text, target)
    _write_cache(path, cached | {f"{kind} {text}": (now(), matching)})
    return matching


def kinds(
    cluster: str,
    target: ControlPlaneTarget,
    config_file: FilePath,
    now: Callable[[], float] = time.time,  # noqa: TID251 - the Clock imports asyncio: 25 ms
) -> list[str]:
    """Plural names of the kinds of a cluster, from its discovery; kept like `names`."""
    path = _cache_path(target, config_file)
    cached = _fresh_entries(path, now())
    key = f"kinds {cluster}"
    if key not in cached:
        from towline.kube_api import KubeApi

        cached[key] = (now(), KubeApi(target, cluster, TIMEOUT_SECONDS).plurals())
        _write_cache(path, cached)
    return cached[key][1]


def document(root: str, fields: str) -> str:
    """Query for fields of the resources that match a text."""
    if root == "roles":
        return f"{{ roles {{ {fields} }} }}"
    page = f"(first: {_PAGE}, q: $q)"
    return f"query($q: String) {{ {root}{page} {{ edges {{ node {{ {fields} }} }} }} }}"


def _query_names(kind: str, text: str, target: ControlPlaneTarget) -> list[str]:
    root, fields = QUERIES[kind]
    from towline.client import GraphQLClient

    client = GraphQLClient(target, TIMEOUT_SECONDS)
    variables = {"q": text or None} if root != "roles" else {}
    answer: JsonObject = client.ask(document(root, fields), **variables)
    rows = answer[root]
    nodes = [edge["node"] for edge in rows["edges"]] if isinstance(rows, dict) else rows
    if kind == "services":
        return [f"{node['cluster']['handle']}/{node['name']}" for node in nodes if node["cluster"]]
    return [str(node[fields]) for node in nodes]


def _cache_path(target: ControlPlaneTarget, config_file: FilePath) -> str:
    """File with the kept names of one user of a control plane."""
    user = sha256(f"{target.url}\0{target.token}".encode()).hexdigest()[:16]
    return os.path.join(os.path.dirname(os.path.abspath(config_file)), f"names-{user}.json")


def _fresh_entries(path: str, now: float) -> dict[str, tuple[float, list[str]]]:
    return {key: entry for key, entry in _read_cache(path).items() if entry[0] > now - SECONDS_KEPT}


def _read_cache(path: str) -> dict[str, tuple[float, list[str]]]:
    try:
        with open(path, encoding="utf-8") as file:
            return json.load(file)
    except (OSError, ValueError):
        return {}


def _write_cache(path: str, cached: Mapping[str, tuple[float, list[str]]]) -> None:
    """Replaces the file at once, with mode 0600; a folder that cannot be written keeps nothing."""
    draft = f"{path}.{os.getpid()}"
    with suppress(OSError):
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with open(descriptor, "w", encoding="utf-8") as file:
            json.dump(cached, file)
        os.replace(draft, path)
