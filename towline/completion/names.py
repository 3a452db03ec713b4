"""Names of resources for completion: from the control plane, kept for a short time in a file.

Imports little, because a shell calls it at each press of the tab key.
"""

import json
import os
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from hashlib import sha256
from importlib import import_module

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
    beside: FilePath,
    now: Callable[[], float] = time.time,  # noqa: TID251 - the Clock imports asyncio: 25 ms
) -> list[str]:
    """Names that contain the typed text.

    `beside`: the configuration file; each user of it has a file of kept answers in its folder.
    """
    text = typed.rpartition("/")[2] if kind == "services" else typed
    path = _path(target, beside)
    kept = _kept(path, now())
    for end in range(len(text) + 1):
        _, found = kept.get(f"{kind} {text[:end]}", (0, None))
        # Fewer names than a page are all names, also those that contain a longer text.
        if found is not None and (end == len(text) or len(found) < _PAGE):
            return found
    found = _ask(kind, text, target)
    _write(path, kept | {f"{kind} {text}": (now(), found)})
    return found


def kinds(
    cluster: str,
    target: ControlPlaneTarget,
    beside: FilePath,
    now: Callable[[], float] = time.time,  # noqa: TID251 - the Clock imports asyncio: 25 ms
) -> list[str]:
    """Plural names of the kinds of a cluster, from its discovery; kept like `names`."""
    path = _path(target, beside)
    kept = _kept(path, now())
    key = f"kinds {cluster}"
    if key not in kept:
        api = import_module("towline.kube_api").KubeApi(target, cluster, TIMEOUT_SECONDS)
        kept[key] = (now(), api.plurals())
        _write(path, kept)
    return kept[key][1]


def document(root: str, fields: str) -> str:
    """Query for fields of the resources that match a text."""
    if root == "roles":
        return f"{{ roles {{ {fields} }} }}"
    page = f"(first: {_PAGE}, q: $q)"
    return f"query($q: String) {{ {root}{page} {{ edges {{ node {{ {fields} }} }} }} }}"


def _ask(kind: str, text: str, target: ControlPlaneTarget) -> list[str]:
    root, fields = QUERIES[kind]
    client = import_module("towline.client").GraphQLClient(target, TIMEOUT_SECONDS)
    given = {"q": text or None} if root != "roles" else {}
    answer: JsonObject = client.ask(document(root, fields), **given)
    rows = answer[root]
    nodes = [edge["node"] for edge in rows["edges"]] if isinstance(rows, dict) else rows
    if kind == "services":
        return [f"{node['cluster']['handle']}/{node['name']}" for node in nodes if node["cluster"]]
    return [str(node[fields]) for node in nodes]


def _path(target: ControlPlaneTarget, beside: FilePath) -> str:
    """File with the kept names of one user of a control plane."""
    user = sha256(f"{target.url}\0{target.token}".encode()).hexdigest()[:16]
    return os.path.join(os.path.dirname(os.path.abspath(beside)), f"names-{user}.json")


def _kept(path: str, now: float) -> dict[str, tuple[float, list[str]]]:
    return {key: entry for key, entry in _read(path).items() if entry[0] > now - SECONDS_KEPT}


def _read(path: str) -> dict[str, tuple[float, list[str]]]:
    try:
        with open(path, encoding="utf-8") as file:
            return json.load(file)
    except (OSError, ValueError):
        return {}


def _write(path: str, kept: Mapping[str, tuple[float, list[str]]]) -> None:
    """Replaces the file at once, with mode 0600; a folder that cannot be written keeps nothing."""
    draft = f"{path}.{os.getpid()}"
    with suppress(OSError):
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with open(descriptor, "w", encoding="utf-8") as file:
            json.dump(kept, file)
        os.replace(draft, path)
