"""`towline services diff`: shows differences in the cluster, or previews the effect of a change."""

from collections.abc import Iterator
from typing import Annotated

import typer

from core.errors import Invalid
from towline.cli.services import generated as operations
from towline.cli.services.find import ServiceName, find_service
from towline.cli.services.generated import ServiceDetails, ServiceDiff, ServiceDiffObjectsFields
from towline.cli.services.live_diff import live_difference
from towline.cli.services.reasons import silent_agent
from towline.cli.shell.formats import Format, Output
from towline.cli.shell.found_code import FOUND
from towline.cli.shell.output import colour, escape_controls, say, short, show
from towline.cli.shell.session import connect

_SIGNS = {"ADDED": ("+", "green"), "REMOVED": ("-", "red"), "CHANGED": ("~", "yellow")}


def diff_service(
    context: typer.Context,
    service: ServiceName,
    ref: Annotated[str | None, typer.Option(help="Branch, tag or commit to compare with.")] = None,
    digest: Annotated[str | None, typer.Option(help="An earlier digest of the service.")] = None,
    since: Annotated[
        str | None,
        typer.Option(help="Compare --digest with this digest instead of the current one."),
    ] = None,
    output: Output = Format.TABLE,
) -> None:
    """Show what differs from Git in the cluster, or preview what a ref would change.

    The exit code is 7 if anything differs.

    \b
    Example:
      towline services diff prod-eu/web
      towline services diff prod-eu/web --ref feature-1
    """
    if (ref and digest) or (since and not digest):
        raise Invalid("use either --ref or --digest; --since requires --digest")
    api = connect(context)
    row = find_service(api, service)
    id = row["id"]
    if ref or digest:
        difference = operations.service_diff(api, id, ref=ref, new_digest=digest, old_digest=since)
    else:
        difference = live_difference(api, id)
        for doubt in _reasons_for_doubt(row):
            say(doubt)
    if output.is_table:
        print(*lines(difference), sep="\n")
    else:
        show(difference, (), output, "newDigest")
    if difference["added"] or difference["removed"] or difference["changed"]:
        raise typer.Exit(FOUND)


def _reasons_for_doubt(service: ServiceDetails) -> Iterator[str]:
    """Yields the reasons why the shown difference may be outdated."""
    for error in service["errors"]:
        if error["source"] == "render":
            yield (
                f"compares with {short(service['sha'])}, as Git has no newer render: "
                + (error["message"])
            )
    if silent := silent_agent(service):
        yield f"compares with the last report of the cluster: {silent}"


def lines(difference: ServiceDiff) -> Iterator[str]:
    """Formats a difference: a summary, then each object with its fields."""
    counts = {
        "added": difference["added"],
        "removed": difference["removed"],
        "changed": difference["changed"],
    }
    sums = ", ".join(f"{count} {name}" for name, count in counts.items())
    commit_text = f" at {short(difference['sha'])}" if difference["sha"] else ""
    yield f"{sums}{commit_text}"
    for changed in difference["objects"]:
        sign, paint = _SIGNS[changed["change"]]
        namespace_prefix = f"{changed['namespace']}/" if changed["namespace"] else ""
        yield colour(f"{sign} {changed['kind']} {namespace_prefix}{changed['name']}", paint)
        for field in changed["fields"]:
            yield escape_controls(f"    {field['pointer'] or '/'}: {_old_and_new(field)}")
        if changed["more"]:
            yield f"    and {changed['more']} more"
    listed = len(difference["objects"])
    if (omitted := sum(counts.values()) - listed) > 0:
        yield f"and {omitted} more objects"


def _old_and_new(field: ServiceDiffObjectsFields) -> str:
    old, new = field["old"], field["new"]
    return f"{'(none)' if old is None else old} → {'(none)' if new is None else new}"
