"""Connects to the control plane that the global flags select."""

from typing import Annotated, Any, Protocol

import typer

from core.errors import Invalid, NotFound, Unauthenticated
from towline.cli import documents
from towline.cli.lazy_import import load
from towline.cli.output import Format
from towline.contexts import ControlPlaneTarget, GlobalFlags, resolve

PAGE = 100

Json = dict[str, Any]
Output = Annotated[Format, typer.Option("-o", "--output", help="Output format.")]
Search = Annotated[str | None, typer.Option("-q", "--query", help="Filter by text.")]


class GraphQLApi(Protocol):
    """Client of the control plane's GraphQL API."""

    def ask(self, document: str, /, **variables: Any) -> Json:
        """Returns `data` of the response; raises the error that matches its first error."""
        ...


def global_flags(context: typer.Context) -> GlobalFlags:
    """Global flags of the command line."""
    return context.find_object(GlobalFlags) or GlobalFlags()


def selected_target(context: typer.Context) -> ControlPlaneTarget:
    """Control plane to call, with a token. Unauthenticated: not signed in."""
    target = resolve(global_flags(context))
    if not target.token:
        raise Unauthenticated(f"not signed in: run `towline login {target.url}`")
    return target


def connect(context: typer.Context) -> GraphQLApi:
    """Creates a client of the selected control plane."""
    return load("towline.client").GraphQLClient(selected_target(context))


def find_cluster(api: GraphQLApi, name: str) -> Json:
    """Finds a cluster by handle, else by id."""
    return _find(api, f"cluster {name}", documents.CLUSTER, {"handle": name}, {"id": name})


def find_repository(api: GraphQLApi, name: str) -> Json:
    """Finds a repository by URL, else by id."""
    return _find(api, f"repository {name}", documents.REPOSITORY, {"url": name}, {"id": name})


def find_helm_repository(api: GraphQLApi, name: str) -> Json:
    """Finds a chart repository by URL, else by id."""
    asked = ({"url": name}, {"id": name})
    return _find(api, f"Helm repository {name}", documents.HELM_REPOSITORY, *asked)


def find_service(api: GraphQLApi, name: str) -> Json:
    """Finds a service by `cluster/name`, by a unique name, else by id.

    Invalid: several clusters have a service of this name.
    """
    cluster, slash, service = name.partition("/")
    if slash:
        asked = {"cluster": cluster, "name": service}
        return _find(api, f"service {name}", documents.SERVICE, asked)
    named = [
        service for service in every(api, documents.SERVICES, q=name) if service["name"] == name
    ]
    if len(named) > 1:
        places = " or ".join(f"{service['cluster']['handle']}/{name}" for service in named[:5])
        raise Invalid(f"{len(named)} clusters have a service {name}; use {places}")
    asked = {"id": named[0]["id"] if named else name}
    return _find(api, f"service {name}", documents.SERVICE, asked)


def find_pipeline(api: GraphQLApi, name: str) -> Json:
    """Finds a pipeline by name, else by id."""
    return _find(api, f"pipeline {name}", documents.PIPELINE, {"name": name}, {"id": name})


def find_project(api: GraphQLApi, name: str) -> Json:
    """Finds a project by name."""
    return _find(api, f"project {name}", documents.PROJECT, {"name": name})


def every(api: GraphQLApi, document: str, **variables: Any) -> list[Json]:
    """Fetches all nodes of a connection, page by page."""
    nodes: list[Json] = []
    after = None
    while True:
        (page,) = api.ask(document, first=PAGE, after=after, **variables).values()
        nodes += [edge["node"] for edge in page["edges"]]
        if not page["pageInfo"]["hasNextPage"]:
            return nodes
        after = page["pageInfo"]["endCursor"]


def parse_pairs(given: list[str] | None, option: str) -> dict[str, str]:
    """Parses a repeated `key=value` option. Invalid: a value without `=`."""
    found = {}
    for pair in given or ():
        key, equals, value = pair.partition("=")
        if not equals or not key:
            raise Invalid(f"{pair!r} is not key=value", field=option)
        found[key] = value
    return found


def _find(api: GraphQLApi, what: str, document: str, *ways: dict[str, str]) -> Json:
    """Returns the first result of several lookups. Raises NotFound, with `what`, if all fail."""
    for asked in ways:
        try:
            (found,) = api.ask(document, **asked).values()
        except NotFound:
            continue
        if found is not None:
            return found
    raise NotFound(f"could not find {what}")
