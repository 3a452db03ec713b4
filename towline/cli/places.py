"""Naming things on the command line: `project/shop`, `cluster/dev`, `service/dev/web`."""

from fleet.errors import Invalid
from towline.cli.session import (
    Api,
    find_cluster,
    find_pipeline,
    find_project,
    find_repository,
    find_service,
)

EVERYWHERE = "everywhere"


def kind_and_id(api: Api, place: str) -> tuple[str, str | None]:
    """(kind, id) of `KIND/NAME`; a kind alone means all of that kind. Invalid: no such kind."""
    kind, _, name = place.partition("/")
    if not name:
        return kind.upper(), None
    find = {
        "project": find_project,
        "cluster": find_cluster,
        "service": find_service,
        "pipeline": find_pipeline,
        "repository": find_repository,
    }.get(kind)
    if find is None:
        raise Invalid(f"{place!r} is not like project/NAME, cluster/HANDLE, service/CLUSTER/NAME")
    return kind.upper(), find(api, name)["id"]


def scope_of(api: Api, place: str) -> str:
    """The scope that a place on the command line means."""
    if place == EVERYWHERE:
        return "installation"
    kind, id = kind_and_id(api, place)
    if id is None:
        raise Invalid(f"name one: {kind.lower()}/NAME, or say {EVERYWHERE}")
    return f"{kind.lower()}:{id}"
