"""`towline serve` and `towline demo`: load the settings and run the process."""

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from towline.cli.lazy_import import load
from towline.cli.shell.option_groups import OptionGroup, option_groups

_PROCESSES = {"all": "towline.serve.process", "gitcache": "towline.serve.git_cache_process"}
# Child processes always call exec, so gRPC's fork handlers only get in the way.
NO_FORK_HANDLERS = ("GRPC_ENABLE_FORK_SUPPORT", "0")
# The longest time a database thread with results waits for a busy event loop; Python's default of
# 5 ms is more than most statements take.
_SWITCH_SECONDS = 0.0005


class ServeOptions(OptionGroup):
    """Options of `towline serve`; each overrides a setting."""

    config: Annotated[Path | None, typer.Option(help="TOML settings file.")] = None
    target: Annotated[str | None, typer.Option(help="Components to run: all or gitcache.")] = None
    data: Annotated[Path | None, typer.Option(help="Data directory.")] = None
    database: Annotated[
        str | None,
        typer.Option(help="postgresql://…; if it has a password, use TOWLINE_DATABASE_FILE."),
    ] = None
    redis: Annotated[
        str | None,
        typer.Option(
            help="redis://…, shared by replicas; if it has a password, use TOWLINE_REDIS_FILE."
        ),
    ] = None
    listen: Annotated[str | None, typer.Option(help="HTTPS address for everything.")] = None
    listen_http: Annotated[str | None, typer.Option(help="HTTP address without TLS, or off.")] = (
        None
    )
    listen_agents: Annotated[
        str | None, typer.Option(help="gRPC address for agents, with TLS.")
    ] = None
    listen_peers: Annotated[
        str | None, typer.Option(help="Address for other replicas of the Git cache, with TLS.")
    ] = None
    listen_replicas: Annotated[
        str | None, typer.Option(help="Address for other replicas of the control plane, with TLS.")
    ] = None
    listen_metrics: Annotated[
        str | None, typer.Option(help="Address for Prometheus metrics, or off.")
    ] = None
    tls_cert: Annotated[
        Path | None,
        typer.Option(help="TLS certificate (PEM file; default: issued by Towline's own CA)."),
    ] = None
    tls_key: Annotated[Path | None, typer.Option(help="TLS private key (PEM file).")] = None
    log_level: Annotated[
        str | None, typer.Option(help="Log level: debug, info, warning or error.")
    ] = None

    def flags(self) -> dict[str, object]:
        """Settings given on the command line."""
        values = dict(vars(self))
        cert, key = values.pop("tls_cert"), values.pop("tls_key")
        del values["config"]
        return {**values, "tls": {"cert": cert, "key": key} if cert or key else None}


@option_groups
def serve(options: ServeOptions) -> None:
    """Run the control plane until SIGTERM or Ctrl-C.

    \b
    Example:
      towline serve --data ./data --listen 0.0.0.0:8443
    """
    module = load("towline.settings")
    settings = module.load(options.flags(), options.config)
    os.environ.setdefault(*NO_FORK_HANDLERS)
    load("core.runtime.logs").configure(settings.log_level)
    if unknown := module.unknown_variables():
        load("structlog").get_logger(__name__).warning(
            "ignored variables that are not settings of the control plane",
            action="serve.unknown_variables",
            variables=unknown,
        )
    sys.setswitchinterval(_SWITCH_SECONDS)
    load("uvloop").run(load(_PROCESSES[settings.target]).run(settings))


def demo(
    check: Annotated[
        bool, typer.Option("--check", help="Run all demo steps, verify each one, then exit.")
    ] = False,
) -> None:
    """Run a complete installation on this machine: two clusters, Git and a pipeline.

    The demo runs until Ctrl-C.

    \b
    Example:
      towline demo --check
    """
    raise typer.Exit(load("towline.demo.program").run(check=check))
