"""Parses resource names of the command line: `project/shop`, `cluster/dev`, `service/dev/web`."""

from collections.abc import Callable
from typing import TypedDict

from core.errors import Invalid
from towline.cli.clusters.find import find_cluster
from towline.cli.pipelines.find import find_pipeline
from towline.cli.projects.find import find_project
from towline.cli.repositories.find import find_folder_repository
from towline.cli.services.find import find_service
from towline.operations import GraphQLApi

EVERYWHERE = "everywhere"


class _Resource(TypedDict):
    id: str


def kind_and_id(api: GraphQLApi, place: str) -> tuple[str, str | None]:
    """Returns kind and id of `KIND/NAME`; a kind alone means all of it. Invalid: unknown kind."""
    kind, _, name = place.partition("/")
    if not name:
        return kind.upper(), None
    lookups: dict[str, Callable[[], _Resource]] = {
        "project": lambda: find_project(api, name),
        "cluster": lambda: find_cluster(api, name),
        "service": lambda: find_service(api, name),
        "pipeline": lambda: find_pipeline(api, name),
        "repository": lambda: {"id": find_folder_repository(api, name)},
    }
    if kind not in lookups:
        raise Invalid(
            f"unknown resource {place!r}; expected a form such as project/NAME, cluster/HANDLE "
            "or service/CLUSTER/NAME"
        )
    return kind.upper(), lookups[kind]()["id"]


def scope_of(api: GraphQLApi, place: str) -> str:
    """Converts a place on the command line to a scope of the API."""
    if place == EVERYWHERE:
        return "installation"
    kind, id = kind_and_id(api, place)
    if id is None:
        raise Invalid(f"a scope needs a name: use {kind.lower()}/NAME or {EVERYWHERE}")
    return f"{kind.lower()}:{id}"
