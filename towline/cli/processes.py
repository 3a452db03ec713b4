"""`towline serve` and `demo`: settings in, then the process of that kind."""

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from towline.cli.lazy import load

_PROCESSES = {"all": "towline.serve.process", "gitcache": "towline.serve.gittier"}
# Child processes here are programs of their own, so gRPC's fork handlers only get in the way.
NO_FORK_HANDLERS = ("GRPC_ENABLE_FORK_SUPPORT", "0")
# For so long a thread that has a statement's rows waits for a busy loop; Python's own 5 ms are
# more than most statements take.
_SWITCH_SECONDS = 0.0005


def serve(
    config: Annotated[Path | None, typer.Option(help="TOML file of settings.")] = None,
    target: Annotated[str | None, typer.Option(help="Which parts to run.")] = None,
    data: Annotated[Path | None, typer.Option(help="Folder of all state.")] = None,
    database: Annotated[
        str | None,
        typer.Option(help="postgresql://…; with a password in it, use TOWLINE_DATABASE_FILE."),
    ] = None,
    redis: Annotated[
        str | None,
        typer.Option(help="redis://…, shared by replicas; with a password, TOWLINE_REDIS_FILE."),
    ] = None,
    listen: Annotated[str | None, typer.Option(help="HTTPS: everything.")] = None,
    listen_http: Annotated[str | None, typer.Option(help="The same without TLS, or off.")] = None,
    listen_agents: Annotated[str | None, typer.Option(help="gRPC over TLS, for agents.")] = None,
    listen_peers: Annotated[
        str | None, typer.Option(help="TLS between replicas of the git cache.")
    ] = None,
    listen_replicas: Annotated[
        str | None, typer.Option(help="TLS between replicas of the control plane.")
    ] = None,
    listen_metrics: Annotated[str | None, typer.Option(help="Prometheus metrics, or off.")] = None,
    tls_cert: Annotated[Path | None, typer.Option(help="PEM file; an own CA without.")] = None,
    tls_key: Annotated[Path | None, typer.Option(help="PEM file.")] = None,
    log_level: Annotated[str | None, typer.Option(help="debug, info, warning or error.")] = None,
) -> None:
    """Run the control plane until SIGTERM or Ctrl-C.

    \b
    Example:
      towline serve --data ./data --listen 0.0.0.0:8443
    """
    flags = {
        "target": target,
        "data": data,
        "database": database,
        "redis": redis,
        "listen": listen,
        "listen_http": listen_http,
        "listen_agents": listen_agents,
        "listen_peers": listen_peers,
        "listen_replicas": listen_replicas,
        "listen_metrics": listen_metrics,
        "tls": {"cert": tls_cert, "key": tls_key} if tls_cert or tls_key else None,
        "log_level": log_level,
    }
    settings = load("towline.settings").load(flags, config)
    os.environ.setdefault(*NO_FORK_HANDLERS)
    load("fleet.runtime.logs").configure(settings.log_level)
    sys.setswitchinterval(_SWITCH_SECONDS)
    load("uvloop").run(load(_PROCESSES[settings.target]).run(settings))


def demo(
    check: Annotated[
        bool, typer.Option("--check", help="Play the whole story, assert each step, end.")
    ] = False,
) -> None:
    """Run the whole product on this machine: two clusters, git, a pipeline; until Ctrl-C.

    \b
    Example:
      towline demo --check
    """
    raise typer.Exit(load("towline.demo.program").run(check=check))
