"""Assembles all commands, and maps errors to exit codes."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from fleet import __version__
from fleet.errors import Code, TowlineError
from towline.cli import (
    access,
    admin,
    agent,
    audit,
    blame,
    clustergroups,
    clusters,
    contexts,
    declare,
    fleet,
    flow,
    globals,
    groups,
    helmrepos,
    login,
    namespaces,
    notifications,
    pipelines,
    processes,
    projects,
    repos,
    roles,
    search,
    secrets,
    services,
    sets,
    simulate,
    streams,
    tokens,
    users,
)
from towline.cli.output import printable
from towline.cli.waiting import WaitedInVain
from towline.contexts import Wish

_EXIT_CODES = {
    Code.INVALID: 2,
    Code.NOT_FOUND: 3,
    Code.UNAUTHENTICATED: 4,
    Code.FORBIDDEN: 4,
    Code.UNAVAILABLE: 5,
}
_WAITED_IN_VAIN = 6

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    add_completion=False,
    pretty_exceptions_enable=False,
)
for _group, _name in (
    (access.app, "access"),
    (admin.app, "admin"),
    (agent.app, "agent"),
    (audit.app, "audit"),
    (clustergroups.app, "cluster-groups"),
    (clusters.app, "clusters"),
    (contexts.app, "contexts"),
    (globals.app, "globals"),
    (fleet.app, "fleet"),
    (flow.app, "flow"),
    (groups.app, "groups"),
    (helmrepos.app, "helm-repos"),
    (notifications.app, "notifications"),
    (namespaces.app, "namespaces"),
    (pipelines.app, "pipelines"),
    (projects.app, "projects"),
    (repos.app, "repos"),
    (roles.app, "roles"),
    (secrets.app, "secrets"),
    (services.app, "services"),
    (sets.app, "sets"),
    (streams.app, "streams"),
    (tokens.app, "tokens"),
    (users.app, "users"),
):
    app.add_typer(_group, name=_name)
for _command, _name in (
    (processes.serve, "serve"),
    (processes.demo, "demo"),
    (simulate.simulate, "simulate"),
    (simulate.record_churn, "record-churn"),
    (login.login, "login"),
    (login.logout, "logout"),
    (login.whoami, "whoami"),
    (login.kubeconfig, "kubeconfig"),
    (declare.apply, "apply"),
    (search.search, "search"),
    (search.find, "find"),
    (blame.blame, "blame"),
):
    app.command(_name)(_command)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(__version__)
        raise typer.Exit


@app.callback()
def towline(
    context: typer.Context,
    url: Annotated[str | None, typer.Option(help="URL of the control plane.")] = None,
    name: Annotated[
        str | None,
        typer.Option("--context", help="Name of the context (default: the current one)."),
    ] = None,
    ca_file: Annotated[
        Path | None,
        typer.Option(help="CA certificate to trust instead of the system's (PEM file)."),
    ] = None,
    config: Annotated[
        Path | None, typer.Option(help="Configuration file, as written by `towline login`.")
    ] = None,
    version: Annotated[
        bool,
        typer.Option(
            "--version",
            is_eager=True,
            callback=_print_version,
            help="Show the version and exit.",
        ),
    ] = False,
) -> None:
    """One control plane for many Kubernetes clusters.

    \b
    Example:
      towline login https://towline.example.org
      towline clusters list
    """
    context.obj = Wish(url=url, context=name, ca_file=ca_file, config=config)


def main() -> None:
    """Runs one command.

    Exit codes: 0 success, 1 failure, 2 invalid usage, 3 not found, 4 unauthenticated or forbidden,
    5 unreachable, 6 timed out.
    """
    try:
        app(prog_name="towline")
    except TowlineError as error:
        print(f"towline: {printable(error.message)}", file=sys.stderr)
        sys.exit(exit_code(error))


def exit_code(error: TowlineError) -> int:
    """Returns the exit code for an error."""
    return _WAITED_IN_VAIN if isinstance(error, WaitedInVain) else _EXIT_CODES.get(error.code, 1)
