"""`towline clusters …`."""

import os
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast
from urllib.parse import urlsplit

import typer

from core.errors import Invalid, NotFound
from core.runtime.atomic_files import write_atomically
from towline.cli.clusters import bootstrap_tokens
from towline.cli.clusters import generated as operations
from towline.cli.clusters.deletion import describe_deletion, wait_for_deletion
from towline.cli.clusters.find import find_cluster
from towline.cli.clusters.freezes import describe_freeze
from towline.cli.clusters.generated import Cluster, NewCluster
from towline.cli.clusters.join_command import values_of_settings
from towline.cli.clusters.joining import join, leave
from towline.cli.clusters.presence import is_silent
from towline.cli.lazy_import import load
from towline.cli.shell.confirmation import Yes, confirm_deletion
from towline.cli.shell.formats import Format, Output
from towline.cli.shell.output import Column, age, age_column, field, say, show
from towline.cli.shell.selectors import Selector, fields_of, tags_of
from towline.cli.shell.session import (
    Search,
    connect,
    name_value_pairs,
    parse_pairs,
    selected_target,
)
from towline.cli.shell.timeouts import WithWait, timeout_of
from towline.cli.views.filters import View, conditions_of_view
from towline.operations import GraphQLApi

if TYPE_CHECKING:
    from towline.generated_inputs import ClusterAttributes

app = typer.Typer(no_args_is_help=True, help="Clusters and their agents.")

Name = Annotated[str, typer.Argument(help="Handle or id of the cluster.")]
_CHECKS = (
    "in that cluster, read `kubectl --namespace=towline-agent logs deployment/towline-agent`, or "
    "run `towline agent doctor` with the options of the agent"
)
TokenFile = Annotated[
    Path | None,
    typer.Option(help="File for the deploy token, mode 0600 (default: HANDLE.token)."),
]
ShowToken = Annotated[
    bool, typer.Option("--show-token", help="Print the deploy token instead of writing a file.")
]


def _token_end(row: Cluster) -> str:
    """Time until the agent's token expires; empty if it never expires."""
    return age(end) if (end := row["agentTokenExpiresAt"]) else ""


ENDING = "deleting: waiting for the agent to remove the services; detach does not wait"
COLUMNS: tuple[Column[Cluster], ...] = (
    field("HANDLE"),
    field("NAME"),
    field("KUBERNETES", "currentVersion"),
    field("AGENT", "agentVersion"),
    field("NODES", "nodeCount"),
    age_column("LAST SEEN", "pingedAt"),
    Column("TOKEN ENDS", _token_end, ("agentTokenExpiresAt",)),
    Column("TAGS", lambda row: _tags(row), wide=True),
    Column("", lambda row: _note(row)),
)


@app.command("list")
def list_clusters(
    context: typer.Context,
    query: Search = None,
    selector: Selector = None,
    field_selector: Annotated[
        str | None,
        typer.Option(help="Only with this connection: health=CONNECTED, SILENT or NEVER."),
    ] = None,
    view: View = None,
    output: Output = Format.TABLE,
) -> None:
    """List clusters.

    \b
    Example:
      towline clusters list -o name
      towline clusters list -l env=prod --field-selector health=SILENT
      towline clusters list --view "lost in prod"
    """
    health = fields_of(field_selector, ("health",)).get("health", [])
    if len(health) > 1:
        raise Invalid("give one health", field="--field-selector")
    api = connect(context)
    conditions, saved = conditions_of_view(api, "clusters", view, ("tag", "label", "health"))
    tags = tags_of(",".join(saved.get("tag", ())) or None)
    labels = selector or ",".join(saved.get("label", ())) or None
    health = health or saved.get("health") or [None]
    rows = operations.clusters(
        api, q=query or conditions or None, tags=tags, labels=labels, health=health[0]
    )
    show(rows, COLUMNS, output, "handle")


@app.command("get")
def get_cluster(context: typer.Context, cluster: Name, output: Output = Format.TABLE) -> None:
    """Show a cluster.

    \b
    Example:
      towline clusters get prod-eu -o yaml
    """
    row = find_cluster(connect(context), cluster)
    show(row, COLUMNS, output, "handle")
    pinged_at = row["pingedAt"]
    if output.is_table and is_silent(pinged_at):
        contact = f"was last seen {age(pinged_at)}" if pinged_at else "has never connected"
        say(f"the agent of {row['handle']} {contact}: {_CHECKS}")


@app.command("create")
def create_cluster(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="Display name.")],
    handle: Annotated[
        str | None, typer.Option(help="Short name in URLs (default: derived from the name).")
    ] = None,
    tag: Annotated[list[str] | None, typer.Option(help="Tag, as key=value; repeatable.")] = None,
    protect: Annotated[bool, typer.Option(help="Protect the cluster from deletion.")] = False,
    token_file: TokenFile = None,
    show_token: ShowToken = False,
    output: Output = Format.TABLE,
) -> None:
    """Register a cluster, and write the deploy token of its agent to a file.

    Towline shows a token only once. The output has it only with --show-token, so that logs of CI
    do not keep it.

    \b
    Example:
      towline clusters create "Production EU" --handle prod-eu --tag env=prod
      towline clusters create ci --show-token -o json
    """
    attributes: ClusterAttributes = {
        "name": name,
        "handle": handle,
        "protect": protect,
        "tags": name_value_pairs(parse_pairs(tag, "--tag")),
    }
    token_path = token_file or (_token_path(handle, None) if handle else None)
    if token_path and not show_token:
        _check_writable(token_path)
        if token_path.exists():
            raise Invalid(f"{token_path} already exists; choose another file", field="--token-file")
    created = operations.create_cluster(connect(context), attributes)
    file = None if show_token else _token_path(created["handle"], token_file)
    _show_with_token(context, created, file, output)


app.command("join")(join)
app.command("leave")(leave)
app.add_typer(bootstrap_tokens.app, name="bootstrap-tokens")


@app.command("delete")
def delete_cluster(
    context: typer.Context,
    cluster: Name,
    wait: Annotated[
        bool, typer.Option("--wait", help="Wait until the agent has removed all services.")
    ] = False,
    timeout: WithWait = None,
    yes: Yes = False,
    output: Output = Format.TABLE,
) -> None:
    """Delete a cluster; its agent first removes everything that Towline deployed.

    With --wait: exit code 6 on timeout.

    \b
    Example:
      towline clusters delete staging --wait
    """
    limit = timeout_of(timeout, wait=wait)
    confirm_deletion(f"cluster {cluster}", yes=yes, along=lambda: _service_names(context, cluster))
    api = connect(context)
    deleted = operations.delete_cluster(api, find_cluster(api, cluster)["id"])
    show(deleted, COLUMNS, output, "handle")
    if wait:
        wait_for_deletion(api, deleted, limit)
    say(describe_deletion(api, deleted))


@app.command("detach")
def detach_cluster(
    context: typer.Context, cluster: Name, yes: Yes = False, output: Output = Format.TABLE
) -> None:
    """Remove a cluster from Towline and leave its workloads running.

    \b
    Example:
      towline clusters detach staging
    """
    confirm_deletion(f"cluster {cluster} from Towline", yes=yes)
    _change_and_show(context, operations.detach_cluster, cluster, output)


@app.command("agent-values")
def agent_values(context: typer.Context, cluster: Name) -> None:
    """Print the Helm values of a cluster's agent, from the settings that match the cluster.

    Comments name the settings, and others that match as well.

    \b
    Example:
      towline clusters agent-values prod-eu > values.yaml
      helm upgrade towline-agent CHART --reuse-values --values values.yaml
    """
    api = connect(context)
    settings = operations.cluster_agent_settings(api, find_cluster(api, cluster)["id"])
    if (effective := settings["agentSettings"]) is None:
        raise NotFound(
            f"no settings of agents match {settings['handle']}: its agent has the defaults"
        )
    print(f"# settings: {effective['settings']['name']}")
    for title, names in (
        ("also match", effective["overruled"]),
        ("conflict, give one another priority", effective["conflicts"]),
    ):
        if names:
            print(f"# {title}: {', '.join(names)}")
    if effective["upgradeProblem"]:
        say(f"not upgraded to {effective['settings']['version']}: {effective['upgradeProblem']}")
    tags = {tag["name"]: tag["value"] for tag in settings["tags"]}
    values = values_of_settings(effective, {**settings, "tags": tags})
    print(load("yaml").safe_dump(values, sort_keys=False), end="")


@app.command("rotate-token")
def rotate_token(
    context: typer.Context,
    cluster: Name,
    token_file: TokenFile = None,
    show_token: ShowToken = False,
    output: Output = Format.TABLE,
) -> None:
    """Create a new deploy token and write it to a file; older tokens stop working immediately.

    \b
    Example:
      towline clusters rotate-token prod-eu --token-file prod-eu.token
    """
    api = connect(context)
    row = find_cluster(api, cluster)
    file = None if show_token else _token_path(row["handle"], token_file)
    if file:
        _check_writable(file)
    _show_with_token(context, operations.rotate_cluster_token(api, row["id"]), file, output)


def _note(cluster: Cluster) -> str:
    if cluster["deletedAt"]:
        return ENDING
    freeze = describe_freeze(cluster["freeze"]) if cluster["freeze"] else ""
    return "; ".join(filter(None, (cluster["agentAlarm"], freeze)))


def _tags(cluster: Cluster) -> str:
    return ",".join(f"{tag['name']}={tag['value']}" for tag in cluster["tags"])


def _service_names(context: typer.Context, cluster: str) -> list[str]:
    api = connect(context)
    services = operations.cluster_services(api, find_cluster(api, cluster)["id"])
    return [f"service {service['name']} and its objects" for service in services]


def _change_and_show(
    context: typer.Context,
    change: Callable[[GraphQLApi, str], Cluster],
    cluster: str,
    output: Format,
) -> None:
    api = connect(context)
    show(change(api, find_cluster(api, cluster)["id"]), COLUMNS, output, "handle")


def _show_with_token(
    context: typer.Context, cluster: NewCluster, file: Path | None, output: Format
) -> None:
    """Writes the deploy token to a file; without one, prints it."""
    token = cluster["deployToken"] or ""
    if file is None:
        show(cluster, COLUMNS, output, "handle")
    else:
        write_atomically(file, f"{token}\n".encode())
        without_token = cast(
            Cluster, {key: value for key, value in cluster.items() if key != "deployToken"}
        )
        show(without_token, COLUMNS, output, "handle")
        say(f"wrote the deploy token to {file}; Towline does not show it again")
    if output.is_table:
        if file is None:
            print(f"\ndeploy token, shown only once: {token}")
        host = urlsplit(selected_target(context).url).hostname
        installation = operations.installation(connect(context))
        file = file or Path(f"{cluster['handle']}.token")
        arguments = ["--url", f"{host}:{installation['agentsPort']}", "--ca-file", "ca.crt"]
        arguments += ["--token-file", str(file), "--cluster-id", cluster["id"]]
        arguments += ["--signing-key", installation["signingKeyId"]]
        say(f"\nstart the agent with a kubeconfig of the cluster:\n  {_agent_command(arguments)}")


def _token_path(handle: str, path: Path | None) -> Path:
    return path or Path(f"{handle}.token")


def _check_writable(file: Path) -> None:
    """Raises Invalid before a token is created that could not be written."""
    if file.is_dir() or not os.access(file.parent, os.W_OK):
        raise Invalid(f"cannot write {file}", field="--token-file")


def _agent_command(arguments: list[str]) -> str:
    return f"towline agent {shlex.join(arguments)} --kubeconfig FILE"
