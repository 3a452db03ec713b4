"""`towline services diff`: what a change would do, as a person reads it."""

from collections.abc import Iterator
from typing import Annotated

import typer

from fleet.errors import Invalid
from towline.cli import documents
from towline.cli.output import Format, Row, colour, printable, short, show
from towline.cli.session import Output, connect, find_service

DIFFERS = 7
"""The exit code when something differs, beside those that all commands have."""

_SIGNS = {"ADDED": ("+", "green"), "REMOVED": ("-", "red"), "CHANGED": ("~", "yellow")}


def diff_service(
    context: typer.Context,
    service: Annotated[
        str, typer.Argument(metavar="CLUSTER/NAME", help="Or the id of the service.")
    ],
    ref: Annotated[str | None, typer.Option(help="Branch, tag or commit to compare with.")] = None,
    digest: Annotated[str | None, typer.Option(help="A digest that the service has had.")] = None,
    since: Annotated[
        str | None, typer.Option(help="Compare --digest with this one, not with the present one.")
    ] = None,
    output: Output = Format.TABLE,
) -> None:
    """Show what a ref would change, before it is merged; exit code 7 if anything differs.

    \b
    Example:
      towline services diff prod-eu/web --ref feature-1
    """
    if bool(ref) == bool(digest) or (since and not digest):
        raise Invalid("give either --ref or --digest, and --since only with --digest")
    api = connect(context)
    found = find_service(api, service)
    asked = {"id": found["id"], "ref": ref, "newDigest": digest, "oldDigest": since}
    difference = api.ask(documents.SERVICE_DIFF, **asked)["serviceDiff"]
    if output is Format.TABLE:
        print(*lines(difference), sep="\n")
    else:
        show(difference, (), output, "newDigest")
    if difference["added"] or difference["removed"] or difference["changed"]:
        raise typer.Exit(DIFFERS)


def lines(difference: Row) -> Iterator[str]:
    """A difference for people: a summary, then each object with its fields."""
    sums = ", ".join(f"{difference[name]} {name}" for name in ("added", "removed", "changed"))
    at = f" at {short(difference['sha'])}" if difference["sha"] else ""
    yield f"{sums}{at}"
    for one in difference["objects"]:
        sign, paint = _SIGNS[one["change"]]
        place = f"{one['namespace']}/" if one["namespace"] else ""
        yield colour(f"{sign} {one['kind']} {place}{one['name']}", paint)
        for field in one["fields"]:
            yield printable(f"    {field['pointer'] or '/'}: {_sides(field)}")
        if one["more"]:
            yield f"    and {one['more']} more"
    told = len(difference["objects"])
    if (left := sum(difference[n] for n in ("added", "removed", "changed")) - told) > 0:
        yield f"and {left} more objects"


def _sides(field: Row) -> str:
    old, new = field["old"], field["new"]
    return f"{'(none)' if old is None else old} → {'(none)' if new is None else new}"
