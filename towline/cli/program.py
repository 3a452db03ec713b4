"""Assembles all commands, and maps errors to exit codes."""

import re
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from core import __version__
from core.errors import Code, TowlineError
from towline.cli.lazy_group import LazyCommands, LazyGroup
from towline.cli.shell.output import escape_controls
from towline.cli.shell.polling import WaitTimeout
from towline.contexts import GlobalFlags

_EXIT_CODES = {
    Code.INVALID: 2,
    Code.NOT_FOUND: 3,
    Code.UNAUTHENTICATED: 4,
    Code.FORBIDDEN: 4,
    Code.UNAVAILABLE: 5,
}
_TIMED_OUT = 6
_NEEDED_ROLE = re.compile(r" may not .*: needs role (\w+)")

_COMMANDS = LazyCommands(
    {
        "serve": "towline.cli.operator.processes:serve",
        "demo": "towline.cli.operator.processes:demo",
        "simulate": "towline.cli.operator.simulate:simulate",
        "record-churn": "towline.cli.operator.simulate:record_churn",
        "completion": "towline.cli.operator.completion:completion",
        "login": "towline.cli.access.login:login",
        "logout": "towline.cli.access.login:logout",
        "whoami": "towline.cli.access.login:whoami",
        "kubeconfig": "towline.cli.access.login:kubeconfig",
        "apply": "towline.cli.manifests.manifests:apply",
        "diff": "towline.cli.manifests.manifests:diff",
        "delete": "towline.cli.manifests.manifests:delete",
        "export": "towline.cli.manifests.manifests:export",
        "label": "towline.cli.manifests.labels:label",
        "schema": "towline.cli.manifests.manifests:schema",
        "explain": "towline.cli.manifests.manifests:explain",
        "freeze": "towline.cli.clusters.freezing:freeze",
        "thaw": "towline.cli.clusters.freezing:thaw",
        "search": "towline.cli.services.search:search",
        "find": "towline.cli.services.search:find",
        "blame": "towline.cli.services.blame:blame",
        "get": "towline.cli.objects.get:get",
        "logs": "towline.cli.objects.logs:logs",
        "events": "towline.cli.objects.events:events",
        "exec": "towline.cli.objects.exec:execute",
        "port-forward": "towline.cli.objects.port_forward:port_forward",
        "ui": "towline.cli.cockpit.command:ui",
        "top": "towline.cli.objects.top:app",
        "open": "towline.cli.about.about:open_page",
        "version": "towline.cli.about.about:version",
        "help": "towline.cli.about.about:show_help",
        "access": "towline.cli.access.access:app",
        "admin": "towline.cli.operator.admin:app",
        "agent": "towline.cli.operator.agent:app",
        "audit": "towline.cli.reports.audit:app",
        "cluster-groups": "towline.cli.generators.cluster_groups:app",
        "cluster-sources": "towline.cli.cluster_sources.cluster_sources:app",
        "clusters": "towline.cli.clusters.clusters:app",
        "config-sources": "towline.cli.config_sources.config_sources:app",
        "contexts": "towline.cli.configuration.contexts:app",
        "globals": "towline.cli.generators.global_services:app",
        "fleet": "towline.cli.reports.fleet:app",
        "flow": "towline.cli.configuration.flow:app",
        "freeze-key": "towline.cli.clusters.freezing:app",
        "groups": "towline.cli.access.groups:app",
        "helm-repos": "towline.cli.repositories.helm_repositories:app",
        "notifications": "towline.cli.reports.notifications:app",
        "namespaces": "towline.cli.generators.namespaces:app",
        "oci-repos": "towline.cli.repositories.oci_repositories:app",
        "pipelines": "towline.cli.pipelines.pipelines:app",
        "projects": "towline.cli.projects.projects:app",
        "provenance": "towline.cli.services.provenance:app",
        "repos": "towline.cli.repositories.repositories:app",
        "roles": "towline.cli.access.roles:app",
        "secrets": "towline.cli.secrets.secrets:app",
        "services": "towline.cli.services.services:app",
        "sets": "towline.cli.generators.service_sets:app",
        "streams": "towline.cli.reports.streams:app",
        "tokens": "towline.cli.access.tokens:app",
        "users": "towline.cli.access.users:app",
        "views": "towline.cli.views.views:app",
    }
)


class _Program(LazyGroup):
    """All commands."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands = _COMMANDS


app = typer.Typer(
    cls=_Program,
    no_args_is_help=True,
    rich_markup_mode=None,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


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
        if role := _NEEDED_ROLE.search(error.message):
            print(
                "ask an administrator, or request it temporarily: "
                f"towline access request {role[1]} PLACE --reason REASON",
                file=sys.stderr,
            )
        sys.exit(exit_code(error))
    except OSError as error:
        location = f"{error.filename}: " if error.filename else ""
        print(
            f"towline: {escape_controls(f'{location}{error.strerror or error}')}", file=sys.stderr
        )
        sys.exit(1)


def exit_code(error: TowlineError) -> int:
    """Returns the exit code for an error."""
    return _TIMED_OUT if isinstance(error, WaitTimeout) else _EXIT_CODES.get(error.code, 1)
