"""The command with which a cluster joins by itself: `towline clusters join NAME --print`."""

import shlex
from collections.abc import Iterator
from datetime import timedelta
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import typer

from core.errors import Conflict
from core.json_object import JsonMapping, JsonObject
from towline.cli.clusters import generated as operations
from towline.cli.clusters.generated import EffectiveSettings
from towline.cli.lazy_import import load
from towline.cli.shell.output import say
from towline.cli.shell.polling import poll_until
from towline.cli.shell.session import (
    connect,
    found_or_none,
    name_value_pairs,
    parse_pairs,
    selected_target,
)
from towline.operations import GraphQLApi

if TYPE_CHECKING:
    from towline.generated_inputs import BootstrapTokenAttributes

NAMESPACE = "towline-agent"
_TOKEN_LIFE = timedelta(hours=1)
_WAIT_SECONDS = 3600.0
_CA_FILE = "towline-ca.crt"
_END = "END_OF_TOWLINE"


def print_join_command(
    context: typer.Context,
    handle: str,
    admin_role: str,
    tags: list[str] | None,
    *,
    kubectl: bool,
    adopt: bool,
) -> None:
    """Prints a command that installs the agent, and waits until the cluster has joined.

    With `adopt`, the agent joins the registered cluster of this name.
    """
    api, target = connect(context), selected_target(context)
    agent_manifests = load("towline.agent_manifests")
    # Read first: without it, no token is needed.
    chart = agent_manifests.fetch_chart(target) if kubectl else b""
    named_tags = name_value_pairs(parse_pairs(tags, "--tag"))
    attributes: BootstrapTokenAttributes = {
        "name": f"join {handle}",
        "expiresInSeconds": int(_TOKEN_LIFE.total_seconds()),
        "tags": named_tags,
    }
    if adopt:
        attributes["adopts"] = True
        attributes["projectId"] = _project_to_adopt(api, handle)
    token = operations.create_bootstrap_token(api, attributes)
    installation = operations.installation(api)
    address = f"{urlsplit(target.url).hostname}:{installation['agentsPort']}"
    hub = {"address": address, "signingKey": installation["signingKeyId"], "ca": target.ca}
    values: JsonObject = {
        "secrets": {"bootstrapToken": token["token"]},
        "clusterName": handle,
        "hub": {name: value for name, value in hub.items() if value},
        "people": {"clusterRoles": {"towline:admins": admin_role}},
    }
    new: JsonObject = {"handle": handle, "name": handle, "tags": parse_pairs(tags, "--tag")}
    settings = found_or_none(lambda: operations.settings_of_new_cluster(api, handle, named_tags))
    declared = values_of_settings(settings, new) if settings else {}
    if kubectl:
        merged = load("gitcache.render.charts").merge_values(declared, values)
        manifests = agent_manifests.render_manifests(chart, merged, NAMESPACE)
        print(kubectl_command(manifests), flush=True)
    else:
        chart_url = agent_manifests.chart_url(target)
        print(helm_command(chart_url, values, declared), flush=True)
    say("waiting for the agent, for at most 1 h; Ctrl-C ends the wait and keeps the token")
    _wait_for_agent(api, token["bootstrapToken"]["id"])


def _project_to_adopt(api: GraphQLApi, handle: str) -> str | None:
    """ID of the project of a registered cluster. Conflict: its agent has connected."""
    cluster = operations.cluster_to_adopt(api, handle)
    if cluster["pingedAt"]:
        raise Conflict(
            f"cluster {cluster['handle']} has an agent already: give it another deploy token with "
            f"`towline clusters rotate-token {cluster['handle']}`"
        )
    project = cluster["project"]
    return project["id"] if project else None


def kubectl_command(manifests: str) -> str:
    """Command for a shell that applies manifests."""
    return f"kubectl apply -f - <<'{_END}'\n{manifests}{_END}"


def values_of_settings(effective: EffectiveSettings, cluster: JsonMapping) -> JsonObject:
    """Helm values that the settings of agents have for a cluster. Invalid: they are malformed."""
    settings = effective["settings"]
    values: JsonObject = load("towline.agent_manifests").agent_values(
        effective["chartValues"],
        settings["agentValues"],
        cluster,
        templated=settings["agentValuesTemplated"],
    )
    return values


def helm_command(chart: str, values: JsonObject, declared: JsonObject | None = None) -> str:
    """Command for a shell that installs the agent's chart from its URL.

    `declared` values are below the others. A private CA is first written into a file, because Helm
    also reads the chart with it.
    """
    arguments = ["helm", "upgrade", "--install", "towline-agent", chart]
    arguments += ["--namespace", NAMESPACE, "--create-namespace"]
    flat_values = dict(_flattened(values))
    ca = flat_values.pop("hub.ca", "")
    for name, value in flat_values.items():
        escaped = value.replace("\\", "\\\\").replace(",", "\\,")
        arguments += ["--set-string", f"{name}={escaped}"]
    before, after = "", ""
    if ca:
        arguments += ["--ca-file", _CA_FILE, "--set-file", f"hub.ca={_CA_FILE}"]
        before = f"cat > {_CA_FILE} <<'{_END}'\n{ca.strip()}\n{_END}\n"
    if declared:
        arguments += ["--values", "-"]
        after = f" <<'{_END}'\n{load('yaml').safe_dump(declared, sort_keys=False)}{_END}"
    return before + shlex.join(arguments) + after


def _flattened(values: JsonObject, parent: str = "") -> Iterator[tuple[str, str]]:
    """Yields the path and the text of each value."""
    for name, value in values.items():
        if isinstance(value, dict):
            yield from _flattened(value, f"{parent}{name}.")
        else:
            yield f"{parent}{name}", str(value)


def _wait_for_agent(api: GraphQLApi, token_id: str) -> None:
    """Waits until the agent of a cluster that joined with the token has connected."""
    registered = ""

    def look() -> str:
        nonlocal registered
        for cluster in operations.bootstrap_token(api, token_id)["clusters"]:
            if cluster["handle"] != registered:
                registered = cluster["handle"]
                print(f"registered: cluster {registered}", flush=True)
            if cluster["connected"]:
                return registered
        return ""

    handle = poll_until(look, bool, _WAIT_SECONDS, every=2.0)
    print(f"connected: cluster {handle}")
