"""Finds services by the names that commands accept."""

from typing import Annotated

import typer

from core.errors import Invalid
from towline.cli.services.generated import ServiceDetails, ServiceRow, service, services
from towline.cli.shell.session import first_found
from towline.operations import GraphQLApi

ServiceName = Annotated[
    str, typer.Argument(metavar="CLUSTER/NAME", help="Service, by cluster and name, or by id.")
]


def label(service: ServiceRow) -> str:
    """Name of a service in messages: `prod/web`."""
    cluster = service["cluster"]
    return f"{cluster['handle'] if cluster else '?'}/{service['name']}"


def find_service(api: GraphQLApi, name: str) -> ServiceDetails:
    """Finds a service by `cluster/name`, by a unique name, else by id.

    Invalid: several clusters have a service of this name.
    """
    handle, slash, rest = name.partition("/")
    subject = f"service {name}; `towline services list` shows their names, as CLUSTER/NAME"
    if slash:
        return first_found(subject, lambda: service(api, cluster=handle, name=rest))
    matching = [found for found in services(api, q=name) if found["name"] == name]
    if len(matching) > 1:
        places = " or ".join(label(found) for found in matching[:5])
        raise Invalid(f"{len(matching)} clusters have a service {name}; use {places}")
    id = matching[0]["id"] if matching else name
    return first_found(subject, lambda: service(api, id=id))
