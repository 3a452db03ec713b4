"""Parses resource names of the command line: `project/shop`, `cluster/dev`, `service/dev/web`."""

from core.errors import Invalid
from towline.cli.session import (
    GraphQLApi,
    find_cluster,
    find_pipeline,
    find_project,
    find_repository,
    find_service,
)

EVERYWHERE = "everywhere"


def kind_and_id(api: GraphQLApi, place: str) -> tuple[str, str | None]:
    """Returns kind and id of `KIND/NAME`; a kind alone means all of it. Invalid: unknown kind."""
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
        raise Invalid(
            f"unknown resource {place!r}; expected a form such as project/NAME, cluster/HANDLE "
            "or service/CLUSTER/NAME"
        )
    return kind.upper(), find(api, name)["id"]


def scope_of(api: GraphQLApi, place: str) -> str:
    """Converts a place on the command line to a scope of the API."""
    if place == EVERYWHERE:
        return "installation"
    kind, id = kind_and_id(api, place)
    if id is None:
        raise Invalid(f"a scope needs a name: use {kind.lower()}/NAME or {EVERYWHERE}")
    return f"{kind.lower()}:{id}"
