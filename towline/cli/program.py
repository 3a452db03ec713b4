"""All commands joined, and what their failures mean to the shell."""

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
    url: Annotated[str | None, typer.Option(help="The control plane.")] = None,
    name: Annotated[
        str | None, typer.Option("--context", help="A control plane signed in to, by name.")
    ] = None,
    ca_file: Annotated[
        Path | None, typer.Option(help="PEM file to trust instead of the system's authorities.")
    ] = None,
    config: Annotated[Path | None, typer.Option(help="The file that login writes.")] = None,
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_print_version, help="And exit.")
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
    """Run one command. Exit codes: 0 done, 1 failed, 2 wrong use, 3 not found, 4 refused,
    5 unreachable, 6 waited in vain."""
    try:
        app(prog_name="towline")
    except TowlineError as error:
        print(f"towline: {printable(error.message)}", file=sys.stderr)
        sys.exit(exit_code(error))


def exit_code(error: TowlineError) -> int:
    """What a failure means to the shell."""
    return _WAITED_IN_VAIN if isinstance(error, WaitedInVain) else _EXIT_CODES.get(error.code, 1)
