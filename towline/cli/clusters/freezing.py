"""`towline freeze-key …`, `towline freeze` and `towline thaw`."""

from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Annotated

import typer

from core.errors import Invalid, TowlineError, Unavailable
from core.runtime.now import utc_now
from towline.cli.clusters import generated as operations
from towline.cli.clusters.find import find_cluster
from towline.cli.clusters.generated import Cluster
from towline.cli.lazy_import import load
from towline.cli.shell.option_groups import OptionGroup, option_groups
from towline.cli.shell.output import count, say
from towline.cli.shell.polling import WaitTimeout, poll_until
from towline.cli.shell.session import connect
from towline.operations import GraphQLApi

_CONFIRM_SECONDS = 30.0
_MAX_SINGLE = 10
"""Number of clusters that are read one by one; more are read as a list."""
_FROZEN = "this cluster is frozen"
"""Start of the alarm of a frozen cluster."""

app = typer.Typer(no_args_is_help=True, help="Key that freezes clusters; keep it offline.")


class StatementOptions(OptionGroup):
    """Options of a signed statement to agents."""

    key: Annotated[
        Path, typer.Option(exists=True, dir_okay=False, help="File of the private freeze key.")
    ]
    cluster: Annotated[
        list[str] | None,
        typer.Option("--cluster", help="Name of a cluster, as its agent knows it; repeatable."),
    ] = None
    every_cluster: Annotated[bool, typer.Option("--all", help="All clusters.")] = False
    serial: Annotated[
        int | None,
        typer.Option(help="Serial, higher than all before (default: the time in milliseconds)."),
    ] = None
    printed: Annotated[
        bool,
        typer.Option(
            "--print", help="Print the statement instead of sending it; needs no connection."
        ),
    ] = False


@app.command("create")
def create(
    file: Annotated[Path, typer.Argument(help="New file for the private key, mode 0600.")],
) -> None:
    """Create a freeze key, and print its public half for the agents' setting freeze.keys.

    Run it on a machine that you can disconnect, and keep the file offline.

    \b
    Example:
      towline freeze-key create freeze.key > freeze.pem
    """
    if file.exists():
        raise Invalid(f"{file} exists already")
    print(load("towline.freeze_key").create(file), end="")


@option_groups
def freeze(
    context: typer.Context,
    statement: StatementOptions,
    reason: Annotated[str, typer.Option(help="Reason, which the clusters show.")] = "",
    hours: Annotated[
        float | None, typer.Option(help="End the freeze after this many hours.", min=0.01)
    ] = None,
) -> None:
    """Freeze clusters: their agents change nothing and end all requests of users, within seconds.

    The agents obey the key, not the control plane. With --print, the statement can reach them
    without the control plane: in the ConfigMap towline-freeze, or in a file.

    \b
    Example:
      towline freeze --key freeze.key --cluster prod-eu --reason "stolen token"
      towline freeze --key freeze.key --all --print > statement
      kubectl -n towline-agent create configmap towline-freeze --from-file statement
    """
    life = timedelta(hours=hours) if hours is not None else None
    _issue_statement(context, "freeze", statement, reason, life)


@option_groups
def thaw(
    context: typer.Context,
    statement: StatementOptions,
) -> None:
    """Thaw clusters that were frozen with this key.

    \b
    Example:
      towline thaw --key freeze.key --cluster prod-eu
    """
    _issue_statement(context, "thaw", statement)


def _issue_statement(
    context: typer.Context,
    action: str,
    options: StatementOptions,
    reason: str = "",
    life: timedelta | None = None,
) -> None:
    """Signs a statement, and prints it or sends it to the clusters."""
    if bool(options.cluster) == options.every_cluster:
        raise Invalid("specify --cluster, or use --all")
    names, now = options.cluster or ["*"], utc_now()
    statement = load("towline.freeze_key").sign(
        options.key, action, names, now, reason=reason, lifetime=life, serial=options.serial
    )
    if options.printed:
        print(statement)
        return
    api = connect(context)
    chosen = [find_cluster(api, name) for name in options.cluster or ()]
    clusters = chosen or [*operations.clusters(api)]
    failed, sent = 0, dict[str, str]()
    for cluster in clusters:
        handle = cluster["handle"]
        try:
            operations.deliver_freeze_statement(api, cluster["id"], statement)
        except TowlineError as error:
            failed += 1
            say(f"{handle}: {error.message}")
        else:
            say(f"{handle}: {action} sent")
            sent[cluster["id"]] = handle
    if failed:
        raise Unavailable(
            f"{failed} of {len(clusters)} clusters did not get the statement; "
            "run the command again, "
            "or print the statement with --print and give it to their agents in the ConfigMap "
            "towline-freeze"
        )
    confirm_statement(api, action, sent)


def confirm_statement(
    api: GraphQLApi,
    action: str,
    sent: Mapping[str, str],
    within: float = _CONFIRM_SECONDS,
    every: float = 1.0,
) -> None:
    """Waits until the agents show the freeze or its end. Raises Unavailable if some do not.

    `sent` has the handles of the clusters by id. An agent without the key ignores the statement.
    """

    def unconfirmed() -> list[Cluster]:
        return [
            row for row in _cluster_rows(api, sent) if _is_frozen(row) is not (action == "freeze")
        ]

    try:
        poll_until(unconfirmed, lambda rows: not rows, within, every=every)
    except WaitTimeout:
        names = ", ".join(row["handle"] for row in unconfirmed())
    else:
        say(f"{action} confirmed by {count(len(sent), 'cluster')}")
        return
    raise Unavailable(
        f"no confirmation of the {action} yet from {names}: an agent that is away obeys when it "
        "connects; one without the key in its setting freeze.keys, or of another freeze.cluster, "
        "never obeys, and its log has the reason"
    )


def _cluster_rows(api: GraphQLApi, sent: Mapping[str, str]) -> list[Cluster]:
    if len(sent) <= _MAX_SINGLE:
        return [find_cluster(api, id) for id in sent]
    return [row for row in operations.clusters(api) if row["id"] in sent]


def _is_frozen(row: Cluster) -> bool:
    return _FROZEN in (row["agentAlarm"] or "")
