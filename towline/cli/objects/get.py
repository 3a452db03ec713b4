"""`towline get`: objects of one cluster, or of all."""

from typing import Annotated, Any

import typer

from core.errors import Invalid, NotFound
from core.json_object import JsonObject
from towline.cli.clusters import generated as cluster_operations
from towline.cli.lazy_import import load
from towline.cli.objects.fan_out import FleetAnswers, ask_all
from towline.cli.shell.formats import Format, Output
from towline.cli.shell.option_groups import OptionGroup, option_groups
from towline.cli.shell.output import Column, colour, say, show
from towline.cli.shell.polling import seconds
from towline.cli.shell.session import connect, selected_target
from towline.completion.candidates import known_commands

_NO_CLUSTERS = "specify clusters with --cluster, or use --all-clusters"
PARTIAL = 8
"""Exit code when some clusters did not answer, in addition to those of all commands."""

Namespace = Annotated[
    str | None, typer.Option("-n", "--namespace", help="Namespace (default: all).")
]
Selector = Annotated[
    str | None, typer.Option("-l", "--selector", help="Label selector, such as app=web.")
]
FieldSelector = Annotated[
    str | None,
    typer.Option("--field-selector", help="Field selector, such as status.phase=Running."),
]


class FleetOptions(OptionGroup):
    """Options of a command that asks many clusters."""

    cluster: Annotated[
        list[str] | None,
        typer.Option("-c", "--cluster", help="Handle of the cluster; repeatable."),
    ] = None
    every_cluster: Annotated[bool, typer.Option("--all-clusters", help="All clusters.")] = False
    timeout: Annotated[
        str, typer.Option("--timeout", help="Time for all clusters, such as 5s or 1m.")
    ] = "10s"


class ObjectOptions(OptionGroup):
    """Options that select objects, as those of kubectl."""

    namespace: Namespace = None
    every_namespace: Annotated[
        bool, typer.Option("-A", "--all-namespaces", help="All namespaces, which is the default.")
    ] = False
    selector: Selector = None
    field_selector: FieldSelector = None


@option_groups
def get(
    context: typer.Context,
    kind: Annotated[
        str,
        typer.Argument(help="Kind, such as pods, deploy or crontabs.example.org, or KIND/NAME."),
    ],
    fleet: FleetOptions,
    objects: ObjectOptions,
    name: Annotated[str | None, typer.Argument(help="Name of the object.")] = None,
    output: Output = Format.TABLE,
) -> None:
    """Get objects of clusters as yourself, through the Kubernetes proxy.

    Clusters that refuse, or do not answer in time, are named on standard error; the exit code is
    then 8.

    \b
    Example:
      towline get pods --all-clusters -l app=web
      towline get deploy web -n shop -c prod-eu -o yaml
    """
    if objects.namespace and objects.every_namespace:
        raise Invalid("use either --namespace or --all-namespaces")
    kind, name = _kind_and_name(kind, name)
    if not (fleet.cluster or fleet.every_cluster) and (hint := _list_hint(kind)):
        raise Invalid(f"{_NO_CLUSTERS}{hint}")
    handles = selected_clusters(context, fleet)
    fields = (objects.field_selector, f"metadata.name={name}" if name else None)
    parameters = {
        "labelSelector": objects.selector,
        "fieldSelector": ",".join(filter(None, fields)),
    }
    query = {key: value for key, value in parameters.items() if value}
    target, limit = selected_target(context), seconds(fleet.timeout, "--timeout")
    is_table = output.is_table

    def ask(handle: str) -> JsonObject:
        api = load("towline.kube_api").KubeApi(target, handle, limit)
        path = api.kind(kind).path(objects.namespace)
        return (api.table if is_table else api.get)(path, **query)

    answers = ask_all(handles, ask, limit)
    if not answers.found:
        report_problems(answers)
    if is_table:
        rows = [row for handle, page in answers.found.items() for row in _rows(handle, page)]
        show(rows, _columns(answers, output), output, "name")
    else:
        items = [item for handle, page in answers.found.items() for item in _items(handle, page)]
        result = items[0] if name and len(items) == 1 else items
        show(result, (), output, lambda row: f"{row['cluster']}/{row['metadata']['name']}")
    report_problems(answers)
    if name and not any(page.get("rows") or page.get("items") for page in answers.found.values()):
        raise NotFound(f"could not find {kind} {name}")


def _kind_and_name(kind: str, name: str | None) -> tuple[str, str | None]:
    """Kind and name; kubectl accepts both as one word, too. Invalid: two names."""
    kind, slash, joined = kind.partition("/")
    if slash and name:
        raise Invalid(f"use either {kind}/{joined} or {kind} {name}")
    return kind, joined or name


def _list_hint(kind: str) -> str:
    """Hint to the command that lists resources of Towline with the name of this kind."""
    plural = f"{kind.lower().removesuffix('s')}s"
    groups = known_commands()["commands"]
    if "list" not in groups.get(plural, {}).get("commands", {}):
        return ""
    return f"; `towline {plural} list` lists the {plural} of Towline"


def selected_clusters(context: typer.Context, fleet: FleetOptions) -> list[str]:
    """Handles of the given clusters, or of all. Invalid: neither, or both."""
    if bool(fleet.cluster) is fleet.every_cluster:
        raise Invalid(_NO_CLUSTERS)
    if fleet.cluster:
        return fleet.cluster
    return [row["handle"] for row in cluster_operations.clusters(connect(context))]


def report_problems(answers: FleetAnswers[Any]) -> None:
    """Names the clusters without an answer, and ends the command with exit code 8.

    Raises the error of a cluster that was asked alone.
    """
    if not answers.problems:
        return
    if not answers.found and len(answers.problems) == 1:
        raise next(iter(answers.problems.values()))
    total = len(answers.found) + len(answers.problems)
    say(colour(f"partial: {len(answers.found)} of {total} clusters answered", "yellow"))
    for handle, problem in answers.problems.items():
        say(f"  {handle}: {problem.message}")
    raise typer.Exit(PARTIAL)


def _rows(handle: str, page: JsonObject) -> list[JsonObject]:
    """Rows of a table of an API server, by the names of its columns."""
    names = [column["name"] for column in page["columnDefinitions"]]
    rows = []
    for row in page["rows"]:
        metadata = row["object"]["metadata"]
        cells = dict(zip(names, row["cells"], strict=True))
        location = {
            "cluster": handle,
            "namespace": metadata.get("namespace"),
            "name": metadata["name"],
        }
        rows.append({**location, "cells": cells})
    return rows


def _columns(answers: FleetAnswers[JsonObject], output: Format) -> list[Column[Any]]:
    """Columns of the API servers, those of the first cluster first."""
    names: dict[str, None] = {}
    for page in answers.found.values():
        for column in page["columnDefinitions"]:
            if output == Format.WIDE or not column.get("priority"):
                names.setdefault(column["name"])
    columns: list[Column[Any]] = [Column("CLUSTER", lambda row: row["cluster"])]
    if any(row["object"]["metadata"].get("namespace") for row in _all_rows(answers)):
        columns.append(Column("NAMESPACE", lambda row: row["namespace"]))
    return columns + [_cell_column(name) for name in names]


def _all_rows(answers: FleetAnswers[JsonObject]) -> list[JsonObject]:
    return [row for page in answers.found.values() for row in page["rows"]]


def _cell_column(name: str) -> Column[Any]:
    return Column(name.upper(), lambda row: row["cells"].get(name))


def _items(handle: str, page: JsonObject) -> list[JsonObject]:
    kind, version = page["kind"].removesuffix("List"), page["apiVersion"]
    identity = {"cluster": handle, "apiVersion": version, "kind": kind}
    return [identity | item for item in page["items"]]
