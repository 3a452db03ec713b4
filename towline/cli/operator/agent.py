"""`towline agent`: runs, diagnoses and upgrades the agent of one cluster."""

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from core.errors import Invalid
from towline.cli.lazy_import import load
from towline.cli.operator.processes import NO_FORK_HANDLERS
from towline.cli.shell.option_groups import OptionGroup, option_groups
from towline.cli.shell.output import escape_controls

_PREFIX = "TOWLINE_AGENT_"
_TOKEN_VARIABLES = (f"{_PREFIX}HUB_TOKEN", f"{_PREFIX}HUB_BOOTSTRAP_TOKEN")
# Few threads of the agent allocate: more arenas would only hold freed memory. A fixed threshold for
# large blocks would save 2 MB and cost a fifth more CPU: each read over TLS allocates 256 KiB.
FEW_ARENAS = ("MALLOC_ARENA_MAX", "2")

app = typer.Typer(
    invoke_without_command=True,
    rich_markup_mode=None,
)


class AgentOptions(OptionGroup):
    """Options of an agent; each overrides a setting."""

    url: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="Agent port of the control plane.")
    ] = None
    token_file: Annotated[Path | None, typer.Option(help="File containing the deploy token.")] = (
        None
    )
    ca_file: Annotated[Path | None, typer.Option(help="CA certificate to trust (PEM file).")] = None
    kubeconfig: Annotated[
        Path | None, typer.Option(help="Kubeconfig (default: in-cluster service account).")
    ] = None
    context: Annotated[str | None, typer.Option(help="Context of the kubeconfig.")] = None
    data: Annotated[Path | None, typer.Option(help="State directory.")] = None
    signing_key: Annotated[
        str | None,
        typer.Option(metavar="FINGERPRINT", help="Signing key to pin (default: the first seen)."),
    ] = None
    cluster_id: Annotated[str | None, typer.Option(help="ID of the cluster in Towline.")] = None
    bootstrap_token_file: Annotated[
        Path | None,
        typer.Option(help="File containing a bootstrap token, to register the cluster."),
    ] = None
    cluster_name: Annotated[
        str | None, typer.Option(help="Name of the cluster that the agent registers.")
    ] = None


@app.callback()
@option_groups
def agent(
    command: typer.Context,
    options: AgentOptions,
    trusted_key: Annotated[
        Path | None, typer.Option(help="More public keys (PEM) that may sign bundles.")
    ] = None,
    log_level: Annotated[
        str, typer.Option(help="Log level: debug, info, warning or error.")
    ] = "info",
) -> None:
    """Run the agent of one cluster, or diagnose it.

    Without a subcommand, the agent runs until SIGTERM or Ctrl-C; --url and a file with a token are
    required. With --bootstrap-token-file, the agent registers its cluster once, and keeps the
    deploy token that it gets.

    \b
    Example:
      towline agent --url towline.example.org:8444 --ca-file ca.crt --token-file dev.token \\
        --kubeconfig ~/.kube/config --context dev
    """
    if command.invoked_subcommand is None:
        start(options, trusted_key, log_level)


def start(options: AgentOptions, trusted_key: Path | None = None, log_level: str = "info") -> None:
    """Replaces this process by an agent."""
    environ = _environ(options, trusted_key)
    load("syncagent.settings").from_environment(environ)
    # Replaces this process, so that the agent does not keep the command line's modules in memory.
    program = [sys.executable, "-P", "-m", "towline.agent_process", log_level]
    os.execve(sys.executable, program, dict([NO_FORK_HANDLERS, FEW_ARENAS]) | environ)


@app.command()
@option_groups
def doctor(options: AgentOptions) -> None:
    """Diagnose an agent: DNS, port, TLS, token, API server, tunnel, permissions, disk.

    Exit code 1 if a required check fails.

    \b
    Example:
      towline agent doctor --url towline.example.org:8444 --token-file dev.token
    """
    environ = _environ(options, None)
    load("core.runtime.logs").configure("error")
    well = load("asyncio").run(load("towline.agent").diagnose(environ, _print_check))
    raise typer.Exit(0 if well else 1)


@app.command(hidden=True)
def replace(
    namespace: Annotated[str, typer.Option(help="Namespace of the agent.")],
    deployment: Annotated[str, typer.Option(help="Deployment of the agent.")],
    image: Annotated[str, typer.Option(help="Image to run.")],
    back_to: Annotated[str, typer.Option(help="Image to restore if the new one does not connect.")],
) -> None:
    """Replace the agent's image, and restore the old one if the new one does not connect."""
    load("core.runtime.logs").configure("info")
    replacing = load("towline.agent").replace_agent_image(namespace, deployment, image, back_to)
    done = load("asyncio").run(replacing)
    typer.echo(done)


def _print_check(passed: bool, needed: bool, step: str, text: str) -> None:
    sign = "ok  " if passed else "FAIL" if needed else "WARN"
    typer.echo(f"{sign}  {escape_controls(step)}: {escape_controls(text)}")


def _environ(options: AgentOptions, trusted_key: Path | None) -> dict[str, str]:
    """Environment for the given options. Invalid: a required option is missing."""
    url = options.url
    flags = {
        "HUB_ADDRESS": url if url is None or "://" in url else f"https://{url}",
        "HUB_TOKEN_FILE": options.token_file,
        "HUB_CA_FILE": options.ca_file,
        "KUBERNETES_KUBECONFIG": options.kubeconfig,
        "KUBERNETES_CONTEXT": options.context,
        "STATE_DIRECTORY": options.data,
        "HUB_SIGNING_KEY": options.signing_key,
        "HUB_CLUSTER_ID": options.cluster_id,
        "HUB_BOOTSTRAP_TOKEN_FILE": options.bootstrap_token_file,
        "HUB_CLUSTER_NAME": options.cluster_name,
        "AUTONOMY_TRUSTED_KEYS": trusted_key,
    }
    # A token in a variable is visible in the process's environment, so only a file is accepted.
    environ = {name: value for name, value in os.environ.items() if name not in _TOKEN_VARIABLES}
    environ |= {f"{_PREFIX}{name}": str(flag) for name, flag in flags.items() if flag is not None}
    if not environ.get(f"{_PREFIX}HUB_ADDRESS"):
        raise Invalid("--url is required")
    if not any(environ.get(f"{variable}_FILE") for variable in _TOKEN_VARIABLES):
        raise Invalid("--token-file or --bootstrap-token-file is required")
    os.environ.setdefault(*NO_FORK_HANDLERS)
    return environ
