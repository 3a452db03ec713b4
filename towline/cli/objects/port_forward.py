"""`towline port-forward`: forwards local ports to a pod of a service, with kubectl."""

from typing import Annotated

import typer

from towline.cli.objects.exec import find_kubectl, pod_of_service, run_kubectl
from towline.cli.services.find import ServiceName
from towline.cli.shell.session import global_flags, selected_target


def port_forward(
    context: typer.Context,
    service: ServiceName,
    ports: Annotated[
        list[str],
        typer.Argument(metavar="[LOCAL:]REMOTE...", help="Local port and port of the pod."),
    ],
    pod: Annotated[str | None, typer.Option(help="Pod (default: a healthy one).")] = None,
    address: Annotated[
        str, typer.Option(help="Addresses of this machine to listen on, separated by commas.")
    ] = "localhost",
) -> None:
    """Forward local ports to a pod of a service as yourself; needs kubectl on the PATH.

    It runs until Ctrl-C, or until the pod ends.

    \b
    Example:
      towline port-forward prod-eu/web 8080:80
    """
    kubectl = find_kubectl()
    handle, target = pod_of_service(context, service, pod)
    arguments = ["-n", target["namespace"] or "default", "port-forward", f"--address={address}"]
    arguments += [f"pod/{target['name']}", "--", *ports]
    flagged = global_flags(context).config
    raise typer.Exit(run_kubectl(kubectl, selected_target(context), flagged, handle, arguments))
