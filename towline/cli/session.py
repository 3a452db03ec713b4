"""From the flags before the command to a client of the control plane that is meant."""

from typing import Annotated, Any, Protocol

import typer

from fleet.errors import Invalid, NotFound, Unauthenticated
from towline.cli import documents
from towline.cli.lazy import load
from towline.cli.output import Format
from towline.contexts import Target, Wish, resolve

PAGE = 100

Json = dict[str, Any]
Output = Annotated[Format, typer.Option("-o", "--output", help="How to print the result.")]
Search = Annotated[str | None, typer.Option("-q", "--query", help="Only what holds this text.")]


class Api(Protocol):
    """Asks the control plane."""

    def ask(self, document: str, /, **variables: Any) -> Json:
        """The `data` of the answer; raises what the answer's first error means."""
        ...


def wish_of(context: typer.Context) -> Wish:
    """What the flags before the command say about the control plane."""
    return context.find_object(Wish) or Wish()


def target_of(context: typer.Context) -> Target:
    """The control plane that is meant, with a token. Unauthenticated: there is none."""
    target = resolve(wish_of(context))
    if not target.token:
        raise Unauthenticated(f"not signed in: run `towline login {target.url}`")
    return target


def connect(context: typer.Context) -> Api:
    """A client of the control plane that is meant."""
    return load("towline.client").Client(target_of(context))


def find_cluster(api: Api, name: str) -> Json:
    """A cluster by handle, else by id."""
    return _find(api, f"cluster {name}", documents.CLUSTER, {"handle": name}, {"id": name})


def find_repository(api: Api, name: str) -> Json:
    """A repository by URL, else by id."""
    return _find(api, f"repository {name}", documents.REPOSITORY, {"url": name}, {"id": name})


def find_helm_repository(api: Api, name: str) -> Json:
    """A place of charts by URL, else by id."""
    asked = ({"url": name}, {"id": name})
    return _find(api, f"Helm repository {name}", documents.HELM_REPOSITORY, *asked)


def find_service(api: Api, name: str) -> Json:
    """A service by `cluster/name`, by a name that only one cluster has, else by id.

    Invalid: several clusters have a service of this name.
    """
    cluster, slash, service = name.partition("/")
    if slash:
        asked = {"cluster": cluster, "name": service}
        return _find(api, f"service {name}", documents.SERVICE, asked)
    named = [one for one in every(api, documents.SERVICES, q=name) if one["name"] == name]
    if len(named) > 1:
        places = " or ".join(f"{one['cluster']['handle']}/{name}" for one in named[:5])
        raise Invalid(f"{len(named)} clusters have a service {name}: say {places}")
    asked = {"id": named[0]["id"] if named else name}
    return _find(api, f"service {name}", documents.SERVICE, asked)


def find_pipeline(api: Api, name: str) -> Json:
    """A pipeline by name, else by id."""
    return _find(api, f"pipeline {name}", documents.PIPELINE, {"name": name}, {"id": name})


def find_project(api: Api, name: str) -> Json:
    """A project by its name."""
    return _find(api, f"project {name}", documents.PROJECT, {"name": name})


def every(api: Api, document: str, **variables: Any) -> list[Json]:
    """All nodes of the connection that the document asks for, page by page."""
    nodes: list[Json] = []
    after = None
    while True:
        (page,) = api.ask(document, first=PAGE, after=after, **variables).values()
        nodes += [edge["node"] for edge in page["edges"]]
        if not page["pageInfo"]["hasNextPage"]:
            return nodes
        after = page["pageInfo"]["endCursor"]


def pairs(given: list[str] | None, option: str) -> dict[str, str]:
    """The values of a repeated `key=value` option. Invalid: one has no `=`."""
    found = {}
    for one in given or ():
        key, equals, value = one.partition("=")
        if not equals or not key:
            raise Invalid(f"{one!r} is not key=value", field=option)
        found[key] = value
    return found


def _find(api: Api, what: str, document: str, *ways: dict[str, str]) -> Json:
    """What the first way leads to. NotFound, with its name: none does."""
    for asked in ways:
        try:
            (found,) = api.ask(document, **asked).values()
        except NotFound:
            continue
        if found is not None:
            return found
    raise NotFound(f"could not find {what}")
