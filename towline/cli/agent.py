"""`towline agent`: the process that a cluster runs, and what looks after it."""

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from fleet.errors import Invalid
from towline.cli.lazy import load
from towline.cli.output import printable
from towline.cli.processes import NO_FORK_HANDLERS

_PREFIX = "TOWLINE_AGENT_"
# Few of its threads allocate: more arenas would only hold what has been freed.
FEW_ARENAS = ("MALLOC_ARENA_MAX", "2")

app = typer.Typer(
    invoke_without_command=True,
    rich_markup_mode=None,
)

_Url = Annotated[
    str | None, typer.Option(metavar="HOST:PORT", help="The control plane's agent port.")
]
_TokenFile = Annotated[Path | None, typer.Option(help="File with the deploy token.")]
_CaFile = Annotated[Path | None, typer.Option(help="PEM file of the CA to trust.")]
_Kubeconfig = Annotated[
    Path | None, typer.Option(help="Way to the cluster; the pod's service account without.")
]
_Context = Annotated[str | None, typer.Option(help="Of the kubeconfig.")]
_Data = Annotated[Path | None, typer.Option(help="Folder of what the agent remembers.")]


@app.callback()
def agent(
    command: typer.Context,
    url: _Url = None,
    token_file: _TokenFile = None,
    ca_file: _CaFile = None,
    kubeconfig: _Kubeconfig = None,
    context: _Context = None,
    data: _Data = None,
    trusted_key: Annotated[
        Path | None, typer.Option(help="Public keys (PEM) of which one must have signed a bundle.")
    ] = None,
    log_level: Annotated[str, typer.Option(help="debug, info, warning or error.")] = "info",
) -> None:
    """Run the agent of one cluster, or find out what it lacks.

    Without a command it runs until SIGTERM or Ctrl-C; --url and --token-file are needed.

    \b
    Example:
      towline agent --url towline.example.org:8444 --ca-file ca.crt --token-file dev.token \\
        --kubeconfig ~/.kube/config --context dev
    """
    if command.invoked_subcommand is not None:
        return
    environ = _environ(url, token_file, ca_file, kubeconfig, context, data, trusted_key)
    load("syncagent.settings").from_environment(environ)
    # In the place of this process comes one that holds nothing of the command line in memory.
    program = [sys.executable, "-P", "-m", "towline.agentprocess", log_level]
    os.execve(sys.executable, program, dict([NO_FORK_HANDLERS, FEW_ARENAS]) | environ)


@app.command()
def doctor(
    url: _Url = None,
    token_file: _TokenFile = None,
    ca_file: _CaFile = None,
    kubeconfig: _Kubeconfig = None,
    context: _Context = None,
    data: _Data = None,
) -> None:
    """Find out what an agent lacks: name, port, TLS, token, API server, rights, disk.

    Ends with 1 if something is missing without which nothing works.

    \b
    Example:
      towline agent doctor --url towline.example.org:8444 --token-file dev.token
    """
    environ = _environ(url, token_file, ca_file, kubeconfig, context, data, None)
    load("fleet.runtime.logs").configure("error")
    well = load("asyncio").run(load("towline.agent").examine(environ, _show))
    raise typer.Exit(0 if well else 1)


@app.command(hidden=True)
def replace(
    namespace: Annotated[str, typer.Option(help="Where the agent runs.")],
    deployment: Annotated[str, typer.Option(help="The agent's Deployment.")],
    image: Annotated[str, typer.Option(help="What is to run there.")],
    back_to: Annotated[str, typer.Option(help="What runs there if that one does not connect.")],
) -> None:
    """Put another image in the agent's place, and the old one back if it does not connect."""
    load("fleet.runtime.logs").configure("info")
    replacing = load("towline.agent").replace(namespace, deployment, image, back_to)
    done = load("asyncio").run(replacing)
    typer.echo(done)


def _show(good: bool, needed: bool, step: str, text: str) -> None:
    word = "ok  " if good else "FAIL" if needed else "lack"
    typer.echo(f"{word}  {printable(step)}: {printable(text)}")


def _environ(
    url: str | None,
    token_file: Path | None,
    ca_file: Path | None,
    kubeconfig: Path | None,
    context: str | None,
    data: Path | None,
    trusted_key: Path | None,
) -> dict[str, str]:
    """The environment that the flags stand for. Invalid: a needed one is missing."""
    flags = {
        "HUB_ADDRESS": url if url is None or "://" in url else f"https://{url}",
        "HUB_TOKEN_FILE": token_file,
        "HUB_CA_FILE": ca_file,
        "KUBERNETES_KUBECONFIG": kubeconfig,
        "KUBERNETES_CONTEXT": context,
        "STATE_DIRECTORY": data,
        "AUTONOMY_TRUSTED_KEYS": trusted_key,
    }
    # A token in the plain variable shows in the process's environment: a file it must be.
    environ = {name: text for name, text in os.environ.items() if name != f"{_PREFIX}HUB_TOKEN"}
    environ |= {f"{_PREFIX}{name}": str(one) for name, one in flags.items() if one is not None}
    for flag, name in (("--url", "HUB_ADDRESS"), ("--token-file", "HUB_TOKEN_FILE")):
        if not environ.get(f"{_PREFIX}{name}"):
            raise Invalid(f"{flag} is needed")
    os.environ.setdefault(*NO_FORK_HANDLERS)
    return environ
