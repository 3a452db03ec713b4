"""Builds kubeconfig entries for clusters, and merges them into a file."""

import base64
import os
import shlex
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from urllib.parse import urlsplit

import yaml

from core.errors import Invalid
from core.json_object import JsonMapping, JsonObject
from towline.context_file import write_private
from towline.contexts import ControlPlaneTarget
from towline.kubectl_login import API_VERSION

PLUGIN = "towline-kubectl-login"

Entry = JsonObject
_LISTS = ("clusters", "users", "contexts")


def build(
    target: ControlPlaneTarget,
    handles: Sequence[str],
    *,
    embed_token: bool,
    config: Path | None = None,
    id_token_command: str = "",
    cluster_domain: str = "",
) -> Entry:
    """Builds a kubeconfig with a context `towline-<handle>` for each cluster; the first is current.

    Credentials come from the login plugin or, with `embed_token`, are in the file itself. With
    `id_token_command`, they come from that plugin: ID tokens, which also prove the user's identity
    to agents. Raises Invalid if it is no command. With `cluster_domain`, the host names the cluster
    instead of the path.
    """
    user = f"towline-{urlsplit(target.url).netloc}"
    names = {handle: f"towline-{handle}" for handle in handles}
    credential = {"token": target.token} if embed_token else _plugin(target.url, config)
    if id_token_command:
        user, credential = f"{user}-id-token", _id_token_plugin(id_token_command)
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {"name": name, "cluster": _cluster(target, handle, cluster_domain)}
            for handle, name in names.items()
        ],
        "users": [{"name": user, "user": credential}],
        "contexts": [
            {"name": name, "context": {"cluster": name, "user": user}} for name in names.values()
        ],
        "current-context": next(iter(names.values()), ""),
    }


def merge(base: JsonMapping, new: Entry) -> Entry:
    """Merges new entries into a kubeconfig; replaces entries of the same name."""
    merged = {"apiVersion": "v1", "kind": "Config", **base}
    for key in _LISTS:
        existing = [*(base.get(key) or ())]
        names = {entry["name"] for entry in new[key]}
        merged[key] = [entry for entry in existing if entry.get("name") not in names] + new[key]
    merged["current-context"] = base.get("current-context") or new["current-context"]
    return merged


def merge_into_file(path: Path, new: Entry) -> None:
    """Merges entries into a kubeconfig file. Raises Invalid if the file is not a kubeconfig."""
    write_private(path.resolve(), dump(merge(_read(path), new)))


def remove_from_file(path: Path, handle: str) -> bool:
    """Removes the context of a cluster, which `build` made. Returns false if there was none."""
    name, data = f"towline-{handle}", dict(_read(path))
    if not any(entry.get("name") == name for entry in data.get("contexts") or ()):
        return False
    for key in ("clusters", "contexts"):
        data[key] = [entry for entry in data.get(key) or () if entry.get("name") != name]
    if data.get("current-context") == name:
        data["current-context"] = ""
    write_private(path.resolve(), dump(data))
    return True


def dump(kubeconfig: Entry) -> str:
    """Formats a kubeconfig as YAML."""
    return yaml.safe_dump(kubeconfig, sort_keys=False)


def default_path(environ: Mapping[str, str] = os.environ) -> Path:
    """Path of the file that kubectl writes to."""
    first = environ.get("KUBECONFIG", "").split(os.pathsep)[0]
    return Path(first) if first else Path.home() / ".kube" / "config"


def _read(path: Path) -> JsonMapping:
    try:
        data = yaml.safe_load(path.read_text())
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise Invalid(f"cannot read {path}: {error.strerror}") from None
    except yaml.YAMLError:
        raise Invalid(f"{path} is not YAML: nothing was changed") from None
    if data is None:
        return {}
    if not isinstance(data, dict) or not all(_is_list(data.get(key)) for key in _LISTS):
        raise Invalid(f"{path} is not a kubeconfig: nothing was changed")
    return data


def _is_list(value: object) -> bool:
    if value is None:
        return True
    return isinstance(value, list) and all(isinstance(entry, dict) for entry in value)


def _cluster(target: ControlPlaneTarget, handle: str, domain: str) -> Entry:
    cluster: Entry = {"server": _server(target.url, handle, domain)}
    if target.ca:
        cluster["certificate-authority-data"] = base64.b64encode(target.ca.encode()).decode()
    return cluster


def _server(url: str, handle: str, domain: str) -> str:
    if not domain:
        return f"{url}/k8s/clusters/{handle}"
    parts = urlsplit(url)
    port = f":{parts.port}" if parts.port else ""
    return f"{parts.scheme}://{handle}.{domain}{port}"


def _plugin(url: str, config: Path | None) -> Entry:
    arguments = ["--url", url, *(["--config", str(config.absolute())] if config else [])]
    hint = "install Towline: it contains towline-kubectl-login"
    return {"exec": _command(_plugin_path(), arguments) | {"installHint": hint}}


def _id_token_plugin(command: str) -> Entry:
    try:
        program, *arguments = shlex.split(command)
    except ValueError:
        raise Invalid("must be a command", field="--id-token-command") from None
    return {"exec": _command(program, arguments)}


def _command(program: str, arguments: Sequence[str]) -> Entry:
    return {
        "apiVersion": API_VERSION,
        "command": program,
        "args": arguments,
        "interactiveMode": "IfAvailable",
        "provideClusterInfo": False,
    }


def _plugin_path() -> str:
    """Name of the plugin if it is on the PATH, else its path next to the interpreter."""
    installed = Path(sys.executable).with_name(PLUGIN)
    return str(installed) if shutil.which(PLUGIN) is None and installed.exists() else PLUGIN
