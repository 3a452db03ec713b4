"""`towline logs`: logs of the pods of a service."""

import threading
from collections.abc import Sequence
from queue import Queue
from typing import Annotated

import typer

from core.errors import Invalid, TowlineError
from towline.cli.lazy_import import load
from towline.cli.services.find import ServiceName, find_service
from towline.cli.services.pods import handle_of, pods_of
from towline.cli.shell.output import colour, escape_controls, say
from towline.cli.shell.session import connect, selected_target

_MAX_PODS = 50
_FOLLOW_SECONDS = 24 * 3600
_SECONDS = 30
_PALETTE = ("cyan", "green", "magenta", "yellow", "blue")


def logs(
    context: typer.Context,
    service: ServiceName,
    pod: Annotated[str | None, typer.Argument(help="Only this pod.")] = None,
    container: Annotated[
        str | None, typer.Option("-c", "--container", help="Container (default: the first one).")
    ] = None,
    follow: Annotated[
        bool, typer.Option("-f", "--follow", help="Print new lines until Ctrl-C.")
    ] = False,
    tail: Annotated[int, typer.Option(min=0, help="Number of last lines of each pod.")] = 100,
    previous: Annotated[
        bool, typer.Option("-p", "--previous", help="Logs of the container that ended before.")
    ] = False,
) -> None:
    """Print the logs of a service's pods as yourself, through the Kubernetes proxy.

    \b
    Example:
      towline logs prod-eu/web -f
      towline logs prod-eu/web web-7d4b9c-x2x1p --previous
    """
    found_service = find_service(connect(context), service)
    handle = handle_of(found_service)
    found_pods = pods_of(service, found_service["components"], pod)
    pods = [(row["namespace"] or "", row["name"]) for row in found_pods]
    if len(pods) > _MAX_PODS:
        raise Invalid(f"service {service} has {len(pods)} pods, {_MAX_PODS} at most; name one")
    parameters = {"tailLines": str(tail)}
    parameters |= {"container": container} if container else {}
    parameters |= {"follow": "true"} if follow else {}
    parameters |= {"previous": "true"} if previous else {}
    limit = _FOLLOW_SECONDS if follow else _SECONDS
    api = load("towline.kube_api").KubeApi(selected_target(context), handle, limit)
    lines: Queue[tuple[str, str | TowlineError | None]] = Queue()

    def read(namespace: str, name: str) -> None:
        try:
            for line in api.log(namespace, name, **parameters):
                lines.put((name, line))
        except TowlineError as error:
            lines.put((name, error))
        lines.put((name, None))

    for namespace, name in pods:
        threading.Thread(target=read, args=(namespace, name), daemon=True).start()
    if _print_lines([name for _, name in pods], lines):
        raise typer.Exit(1)


def _print_lines(
    names: Sequence[str], lines: "Queue[tuple[str, str | TowlineError | None]]"
) -> bool:
    """Prints lines until all pods end, with the pod before each if there are several.

    Returns true if a pod had a problem.
    """
    paint = {name: _PALETTE[number % len(_PALETTE)] for number, name in enumerate(names)}
    running, failed = len(names), False
    while running:
        name, line = lines.get()
        if line is None:
            running -= 1
        elif isinstance(line, TowlineError):
            failed = True
            say(f"{name}: {line.message}")
        else:
            prefix = f"{colour(name, paint[name])} " if len(names) > 1 else ""
            print(f"{prefix}{escape_controls(line)}", flush=True)
    return failed
