"""`towline flow …`: what flows into a service, from where, and who is reached by a change."""

from typing import Annotated

import typer

from towline.cli import flowdocuments as documents
from towline.cli.output import Format, field, say, show
from towline.cli.session import Api, Json, Output, connect, find_service

app = typer.Typer(no_args_is_help=True, help="Values that services and contexts hand on.")

Service = Annotated[str, typer.Argument(help="cluster/name, or id.")]
_VALUES = (field("KIND"), field("NAME"), field("VALUE", "value"), field("FROM", "origin"))
_AFFECTED = (field("SERVICE", "name"), field("ID", "serviceId"))


@app.command("show")
def show_flow(context: typer.Context, service: Service, output: Output = Format.TABLE) -> None:
    """Show what a service exports, imports and finds in contexts, and where it is from.

    \b
    Example:
      towline flow show dev/shop
    """
    api = connect(context)
    id = find_service(api, service)["id"]
    flow = api.ask(documents.FLOW, serviceId=id)["serviceFlow"]
    show([*_exports(flow), *_imports(flow), *_contexts(api, id)], _VALUES, output, "name")
    if flow["problem"]:
        say(flow["problem"])


@app.command("affected")
def affected(context: typer.Context, service: Service, output: Output = Format.TABLE) -> None:
    """List the services that a change of a service's exports reaches, in the order of a roll-out.

    \b
    Example:
      towline flow affected dev/db
    """
    api = connect(context)
    found = api.ask(documents.AFFECTED, serviceId=find_service(api, service)["id"])
    show(found["affectedServices"], _AFFECTED, output, "name")


def _exports(flow: Json) -> list[Json]:
    return [
        {"kind": "export", "name": one["name"], "value": one["value"], "origin": one["type"]}
        for one in flow["exports"]
    ]


def _imports(flow: Json) -> list[Json]:
    return [
        {
            "kind": "import",
            "name": one["alias"],
            "value": one["value"],
            "origin": ", ".join(one["origin"]),
        }
        for one in flow["imports"]
    ]


def _contexts(api: Api, service_id: str) -> list[Json]:
    found = api.ask(documents.VALUES, serviceId=service_id)["serviceContextValues"]
    return [
        {
            "kind": "context",
            "name": f"{one['context']}.{one['key']}",
            "value": one["value"],
            "origin": one["origin"],
        }
        for one in found
    ]
