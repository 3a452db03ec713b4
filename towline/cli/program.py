"""Assembles all commands, and maps errors to exit codes."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from core import __version__
from core.errors import Code, TowlineError
from towline.cli.access import access, groups, login, roles, tokens, users
from towline.cli.apply import apply
from towline.cli.clusters import clusters, freezing
from towline.cli.configuration import contexts, flow
from towline.cli.generators import cluster_groups, global_services, namespaces, service_sets
from towline.cli.operator import admin, agent, completion, processes, simulate
from towline.cli.pipelines import pipelines
from towline.cli.projects import projects
from towline.cli.reports import audit, fleet, notifications, streams
from towline.cli.repositories import helm_repositories, repositories
from towline.cli.secrets import secrets
from towline.cli.services import blame, provenance, search, services
from towline.cli.shell.output import escape_controls
from towline.cli.shell.polling import WaitTimeout
from towline.cli.shell.watching import watchable
from towline.contexts import GlobalFlags

_EXIT_CODES = {
    Code.INVALID: 2,
    Code.NOT_FOUND: 3,
    Code.UNAUTHENTICATED: 4,
    Code.FORBIDDEN: 4,
    Code.UNAVAILABLE: 5,
}
_TIMED_OUT = 6

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
    (cluster_groups.app, "cluster-groups"),
    (clusters.app, "clusters"),
    (contexts.app, "contexts"),
    (global_services.app, "globals"),
    (fleet.app, "fleet"),
    (flow.app, "flow"),
    (freezing.app, "freeze-key"),
    (groups.app, "groups"),
    (helm_repositories.app, "helm-repos"),
    (notifications.app, "notifications"),
    (namespaces.app, "namespaces"),
    (pipelines.app, "pipelines"),
    (projects.app, "projects"),
    (provenance.app, "provenance"),
    (repositories.app, "repos"),
    (roles.app, "roles"),
    (secrets.app, "secrets"),
    (services.app, "services"),
    (service_sets.app, "sets"),
    (streams.app, "streams"),
    (tokens.app, "tokens"),
    (users.app, "users"),
):
    for _registered in _group.registered_commands:
        if _registered.name == "list" and _registered.callback:
            _registered.callback = watchable(_registered.callback)
    app.add_typer(_group, name=_name)
for _command, _name in (
    (processes.serve, "serve"),
    (processes.demo, "demo"),
    (simulate.simulate, "simulate"),
    (simulate.record_churn, "record-churn"),
    (completion.completion, "completion"),
    (login.login, "login"),
    (login.logout, "logout"),
    (login.whoami, "whoami"),
    (login.kubeconfig, "kubeconfig"),
    (apply.apply, "apply"),
    (freezing.freeze, "freeze"),
    (freezing.thaw, "thaw"),
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
    context.obj = GlobalFlags(url=url, context=name, ca_file=ca_file, config=config)


def main() -> None:
    """Runs one command.

    Exit codes: 0 success, 1 failure, 2 invalid usage, 3 not found, 4 unauthenticated or forbidden,
    5 unreachable, 6 timed out.
    """
    try:
        app(prog_name="towline")
    except TowlineError as error:
        print(f"towline: {escape_controls(error.message)}", file=sys.stderr)
        sys.exit(exit_code(error))
    except OSError as error:
        place = f"{error.filename}: " if error.filename else ""
        print(f"towline: {escape_controls(f'{place}{error.strerror or error}')}", file=sys.stderr)
        sys.exit(1)


def exit_code(error: TowlineError) -> int:
    """Returns the exit code for an error."""
    return _TIMED_OUT if isinstance(error, WaitTimeout) else _EXIT_CODES.get(error.code, 1)
