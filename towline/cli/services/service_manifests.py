"""`towline services manifests`: prints the rendered objects of a service."""

import sys
from typing import Annotated

import typer

from core.errors import NotFound
from towline.cli.lazy_import import load
from towline.cli.services import generated as operations
from towline.cli.services.find import ServiceName, find_service, label
from towline.cli.services.generated import ServiceDetails
from towline.cli.services.reasons import first_problem
from towline.cli.shell.output import count, escape_controls, say, short
from towline.cli.shell.session import connect
from towline.operations import GraphQLApi


def show_manifests(
    context: typer.Context,
    service: ServiceName,
    ref: Annotated[
        str | None,
        typer.Option(help="Branch, tag or commit to render (default: the desired state)."),
    ] = None,
    digest: Annotated[str | None, typer.Option(help="An earlier digest of the service.")] = None,
) -> None:
    """Print the rendered manifests of a service as YAML, with masked values of Secrets.

    \b
    Example:
      towline services manifests prod-eu/web
      towline services manifests prod-eu/web --ref feature-1
    """
    api = connect(context)
    dump = load("yaml").safe_dump
    row = find_service(api, service)
    if row["digest"] is None and not (ref or digest):
        raise NotFound(_not_rendered(row))
    objects = _objects(api, row["id"], ref, digest)
    for number, manifest in enumerate(objects):
        sys.stdout.write("---\n" if number else "")
        sys.stdout.write(escape_controls(dump(manifest, sort_keys=False, allow_unicode=True)))


def _not_rendered(service: ServiceDetails) -> str:
    name, problem = label(service), first_problem(service)
    return (
        f"{name} has no manifests, because it was never rendered{problem and f': {problem}'}; "
        f"`towline services why {name}` shows its progress, and --ref renders another commit"
    )


def _objects(
    api: GraphQLApi, id: str, ref: str | None, digest: str | None
) -> list[dict[str, object]]:
    """All objects of one bundle, page by page."""
    rendered = operations.service_manifests(api, id, ref=ref, digest=digest)
    objects = list(rendered["objects"])
    while rendered["objects"] and len(objects) < rendered["count"]:
        rendered = operations.service_manifests(
            api, id, digest=rendered["digest"], skip=len(objects)
        )
        objects += rendered["objects"]
    say(f"# {count(len(objects), 'object')}, {short(rendered['digest'])}")
    return objects
