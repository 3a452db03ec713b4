"""`towline top`: CPU and memory, by the metrics API of clusters."""

import re
from math import ceil
from typing import TypedDict

import typer

from core.errors import NotFound, Unavailable
from core.json_object import JsonObject
from towline.cli.lazy_import import load
from towline.cli.objects.fan_out import ask_all
from towline.cli.objects.get import (
    FleetOptions,
    Namespace,
    Selector,
    report_problems,
    selected_clusters,
)
from towline.cli.shell.formats import Format, Output
from towline.cli.shell.option_groups import option_groups
from towline.cli.shell.output import Column, field, show
from towline.cli.shell.polling import seconds
from towline.cli.shell.session import selected_target

app = typer.Typer(no_args_is_help=True, help="CPU and memory of pods and nodes.")

_API = "/apis/metrics.k8s.io/v1beta1"
_QUANTITY = re.compile(r"(\d+(?:\.\d+)?)([a-zA-Z]*)")
_UNITS = {
    **{"n": 1e-9, "u": 1e-6, "m": 1e-3, "": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12},
    **{"Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40},
}


class PodUsage(TypedDict):
    """CPU in cores and memory in bytes."""

    cluster: str
    namespace: str | None
    name: str
    cpu: float
    memory: float


_COLUMNS: tuple[Column[PodUsage], ...] = (
    field("CLUSTER"),
    field("NAMESPACE"),
    field("NAME"),
    # As kubectl: a part of a millicore counts, a part of a mebibyte does not.
    Column("CPU", lambda row: f"{ceil(round(row['cpu'] * 1000, 6))}m"),
    Column("MEMORY", lambda row: f"{row['memory'] // 2**20:.0f}Mi"),
)


@app.command("pods")
@option_groups
def pods(
    context: typer.Context,
    fleet: FleetOptions,
    namespace: Namespace = None,
    selector: Selector = None,
    output: Output = Format.TABLE,
) -> None:
    """Show the CPU and memory of pods, the largest CPU first.

    \b
    Example:
      towline top pods -c prod-eu -n shop
    """
    scope = f"/namespaces/{namespace}" if namespace else ""
    _show_usage(context, fleet, f"{scope}/pods", selector, output)


@app.command("nodes")
@option_groups
def nodes(
    context: typer.Context,
    fleet: FleetOptions,
    selector: Selector = None,
    output: Output = Format.TABLE,
) -> None:
    """Show the CPU and memory of nodes, the largest CPU first.

    \b
    Example:
      towline top nodes --all-clusters
    """
    _show_usage(context, fleet, "/nodes", selector, output)


def _show_usage(
    context: typer.Context,
    fleet: FleetOptions,
    path: str,
    selector: str | None,
    output: Format,
) -> None:
    handles, target = selected_clusters(context, fleet), selected_target(context)
    limit = seconds(fleet.timeout, "--timeout")
    query = {"labelSelector": selector} if selector else {}

    def ask(handle: str) -> JsonObject:
        api = load("towline.kube_api").KubeApi(target, handle, limit)
        try:
            return api.get(_API + path, **query)
        except NotFound:
            raise NotFound("no metrics API; install metrics-server") from None
        except Unavailable as error:
            raise Unavailable(f"metrics API: {error.message}") from None

    answers = ask_all(handles, ask, limit)
    if not answers.found:
        report_problems(answers)
    rows = [
        _usage(handle, item) for handle, page in answers.found.items() for item in page["items"]
    ]
    rows.sort(key=lambda row: -row["cpu"])
    columns = [column for column in _COLUMNS if "pods" in path or column.title != "NAMESPACE"]
    show(rows, columns, output, "name")
    report_problems(answers)


def _usage(handle: str, item: JsonObject) -> PodUsage:
    """CPU in cores and memory in bytes of a pod, the sum of its containers, or of a node."""
    usages = [container["usage"] for container in item.get("containers", [item])]
    return {
        "cluster": handle,
        "namespace": item["metadata"].get("namespace"),
        "name": item["metadata"]["name"],
        "cpu": sum(quantity(usage["cpu"]) for usage in usages),
        "memory": sum(quantity(usage["memory"]) for usage in usages),
    }


def quantity(text: str) -> float:
    """Parses a quantity of Kubernetes: `250m`, `128Mi`; zero for an unknown unit."""
    match = _QUANTITY.fullmatch(text)
    return float(match[1]) * _UNITS.get(match[2], 0.0) if match else 0.0
