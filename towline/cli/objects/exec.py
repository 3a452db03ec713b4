"""`towline exec`: runs a program in a pod of a service, with kubectl."""

import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from core.errors import Invalid
from towline.cli.lazy_import import load
from towline.cli.services.find import ServiceName, find_service
from towline.cli.services.generated import ServiceDetailsComponents
from towline.cli.services.pods import handle_of, pods_of
from towline.cli.shell.output import say
from towline.cli.shell.session import connect, global_flags, selected_target
from towline.contexts import ControlPlaneTarget, FilePath


def execute(
    context: typer.Context,
    service: ServiceName,
    command: Annotated[
        list[str], typer.Argument(metavar="-- COMMAND...", help="Program and its arguments.")
    ],
    pod: Annotated[str | None, typer.Option(help="Pod (default: a healthy one).")] = None,
    container: Annotated[
        str | None, typer.Option("-c", "--container", help="Container (default: the first one).")
    ] = None,
) -> None:
    """Run a program in a pod of a service as yourself; needs kubectl on the PATH.

    On a terminal the program is interactive.

    \b
    Example:
      towline exec prod-eu/web -- sh
    """
    kubectl = find_kubectl()
    handle, target = pod_of_service(context, service, pod)
    flags = ["-it"] if sys.stdin.isatty() and sys.stdout.isatty() else ["-i"]
    flags += ["-c", container] if container else []
    arguments = ["-n", target["namespace"] or "default", "exec", *flags, target["name"]]
    flagged = global_flags(context).config
    code = run_kubectl(
        kubectl, selected_target(context), flagged, handle, [*arguments, "--", *command]
    )
    raise typer.Exit(code)


def pod_of_service(
    context: typer.Context, service: str, pod: str | None
) -> tuple[str, ServiceDetailsComponents]:
    """Finds a pod of a service, says which, and returns its cluster and the pod."""
    row = find_service(connect(context), service)
    handle, chosen_pod = handle_of(row), pod_of(service, row["components"], pod)
    say(f"pod {chosen_pod['namespace']}/{chosen_pod['name']} of {handle}")
    return handle, chosen_pod


def find_kubectl() -> str:
    """Path of kubectl. Invalid: it is not installed."""
    if (kubectl := shutil.which("kubectl")) is None:
        raise Invalid("could not find kubectl on the PATH; install it")
    return kubectl


def run_kubectl(
    kubectl: str,
    target: ControlPlaneTarget,
    config: FilePath | None,
    handle: str,
    words: Sequence[str],
) -> int:
    """Runs kubectl on this terminal, in one cluster and as the user. Returns its exit code."""
    kubeconfig = load("towline.kubeconfig")
    text = kubeconfig.dump(kubeconfig.build(target, [handle], embed_token=False, config=config))
    with tempfile.TemporaryDirectory(prefix="towline-") as folder:
        file = Path(folder) / "kubeconfig"
        file.write_text(text)
        with _interrupts_left_to_programs():
            return subprocess.run([kubectl, f"--kubeconfig={file}", *words], check=False).returncode


@contextmanager
def _interrupts_left_to_programs() -> Generator[None]:
    """Lets Ctrl-C end the program in the foreground only, as a shell does."""
    # Programs inherit a signal that is ignored, but no handler.
    previous = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, previous)


def pod_of(
    service: str, components: list[ServiceDetailsComponents], name: str | None
) -> ServiceDetailsComponents:
    """Returns the named pod of a service, else a healthy one. Raises NotFound."""
    return min(pods_of(service, components, name), key=lambda row: row["state"] != "RUNNING")
