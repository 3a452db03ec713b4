"""`towline flow …`: values that services export and import, and the services they affect."""

from typing import Annotated

import typer

from towline.cli.configuration import generated as operations
from towline.cli.configuration.generated import AffectedServices, Flow
from towline.cli.services.find import find_service
from towline.cli.shell.formats import Format, Output
from towline.cli.shell.output import Column, Row, field, say, show
from towline.cli.shell.session import connect
from towline.operations import GraphQLApi

app = typer.Typer(no_args_is_help=True, help="Values that services and contexts share.")

Service = Annotated[str, typer.Argument(help="Service, by cluster/name or id.")]
_VALUES = (field("KIND"), field("NAME"), field("VALUE", "value"), field("ORIGIN", "origin"))
_AFFECTED: tuple[Column[AffectedServices], ...] = (
    field("SERVICE", "name"),
    field("ID", "serviceId"),
)


@app.command("show")
def show_flow(context: typer.Context, service: Service, output: Output = Format.TABLE) -> None:
    """Show a service's exports, imports and context values, and their origin.

    \b
    Example:
      towline flow show dev/shop
    """
    api = connect(context)
    id = find_service(api, service)["id"]
    flow = operations.service_flow(api, id)
    show([*_exports(flow), *_imports(flow), *_contexts(api, id)], _VALUES, output, "name")
    if flow["problem"]:
        say(flow["problem"])


@app.command("affected")
def affected(context: typer.Context, service: Service, output: Output = Format.TABLE) -> None:
    """List the services affected by a change of a service's exports, in rollout order.

    \b
    Example:
      towline flow affected dev/db
    """
    api = connect(context)
    show(
        operations.affected_services(api, find_service(api, service)["id"]),
        _AFFECTED,
        output,
        "name",
    )


def _exports(flow: Flow) -> list[Row]:
    return [
        {
            "kind": "export",
            "name": export["name"],
            "value": export["value"],
            "origin": export["type"],
        }
        for export in flow["exports"]
    ]


def _imports(flow: Flow) -> list[Row]:
    return [
        {
            "kind": "import",
            "name": entry["alias"],
            "value": entry["value"],
            "origin": ", ".join(entry["origin"]),
        }
        for entry in flow["imports"]
    ]


def _contexts(api: GraphQLApi, service_id: str) -> list[Row]:
    return [
        {
            "kind": "context",
            "name": f"{row['context']}.{row['key']}",
            "value": row["value"],
            "origin": row["origin"],
        }
        for row in operations.context_values(api, service_id)
    ]
