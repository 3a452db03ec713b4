"""`towline audit …`."""

import sys
import time
from collections.abc import Iterator
from enum import StrEnum
from itertools import islice, takewhile
from typing import TYPE_CHECKING, Annotated, Protocol

import typer

from towline.cli.clusters.find import find_cluster_id
from towline.cli.lazy_import import load
from towline.cli.reports import generated as operations
from towline.cli.reports import replay
from towline.cli.reports.generated import AuditChains, AuditRow
from towline.cli.shell.formats import Format, Output
from towline.cli.shell.option_groups import OptionGroup, option_groups
from towline.cli.shell.output import Column, escape_controls, field, show
from towline.cli.shell.session import Search, connect, selected_target
from towline.operations import GraphQLApi

if TYPE_CHECKING:
    from towline.generated_inputs import AuditLogFilter

app = typer.Typer(invoke_without_command=True)

POLL_SECONDS = 2.0
_MAX_ROWS = 10_000
COLUMNS: tuple[Column[AuditRow], ...] = (
    field("AT"),
    field("ACTOR"),
    field("ACTION"),
    field("TARGET"),
    Column("RESULT", lambda row: row["status"] or row["verdict"]),
    field("FROM", "source"),
)


CHAINS: tuple[Column[AuditChains], ...] = (
    field("KIND"),
    Column("NUMBER", lambda row: f"{row['number']:.0f}"),
    field("HASH"),
    Column("EXPIRED", lambda row: f"{row['expired']:.0f}"),
)


class DecisionFilter(StrEnum):
    """Filter by decision: allowed or refused."""

    ALLOWED = "allowed"
    REFUSED = "refused"


class KindFilter(StrEnum):
    """Kind of an audit row."""

    CHANGE = "change"
    SIGN_IN = "sign-in"
    REQUEST = "request"
    AGENT = "agent"


class ExportFormat(StrEnum):
    """Format of exported rows."""

    JSONL = "jsonl"
    CEF = "cef"


class LineStream(Protocol):
    """Client for streamed responses of the control plane."""

    def lines(self, path: str, **asked: str) -> Iterator[bytes]:
        """Yields the response line by line."""
        ...


class AuditFilterOptions(OptionGroup):
    """Options that select audit rows."""

    actor: Annotated[str | None, typer.Option(help="Filter by the actor's email address.")] = None
    action: Annotated[str | None, typer.Option(help="Filter by action; may end in *.")] = None
    target: Annotated[
        str | None, typer.Option("--target", help="Filter by target, by name or id.")
    ] = None
    cluster: Annotated[str | None, typer.Option(help="Filter by cluster, by handle or id.")] = None
    verdict: Annotated[DecisionFilter | None, typer.Option(help="Filter by decision.")] = None
    kind: Annotated[KindFilter | None, typer.Option(help="Filter by kind.")] = None
    since: Annotated[
        str | None, typer.Option(help="Start time (inclusive), such as 2026-01-31T12:00:00Z.")
    ] = None
    until: Annotated[str | None, typer.Option(help="End time (exclusive).")] = None

    def attributes(self, api: GraphQLApi) -> "AuditLogFilter":
        """Filter for the API."""
        return {
            "actor": self.actor,
            "action": self.action,
            "target": self.target,
            "clusterId": find_cluster_id(api, self.cluster),
            "verdict": self.verdict.name if self.verdict else None,
            "kind": self.kind.name if self.kind else None,
            "since": self.since,
            "until": self.until,
        }

    def query(self, api: GraphQLApi) -> dict[str, str | None]:
        """Filter in the query of the export."""
        return {**vars(self), "cluster": find_cluster_id(api, self.cluster)}


@app.callback()
@option_groups
def audit(
    context: typer.Context,
    follow: Annotated[bool, typer.Option("--follow", help="Print new rows until Ctrl-C.")] = False,
    query: Search = None,
    *,
    only: AuditFilterOptions,
    limit: Annotated[
        int, typer.Option(min=1, max=1_000, help="Number of rows to print first.")
    ] = 50,
    output: Output = Format.TABLE,
) -> None:
    """Show the audit log, oldest first, including every request to a cluster.

    \b
    Example:
      towline audit --follow
      towline audit --action approveGate -o json
      towline audit --kind request --cluster prod --verdict refused
    """
    if context.invoked_subcommand is not None:
        return
    api = connect(context)
    entry_filter = only.attributes(api)
    rows = newest(api, query, limit, entry_filter)
    if not follow:
        return show(rows, COLUMNS, output, "id")
    while True:
        _print_more(rows, output)
        last = max((int(row["id"]) for row in rows), default=0)
        rows = _wait_for_more(api, query, last, entry_filter)


@app.command("export")
@option_groups
def export(
    context: typer.Context,
    form: Annotated[
        ExportFormat, typer.Option("--format", help="Format of the rows.")
    ] = ExportFormat.JSONL,
    *,
    only: AuditFilterOptions,
) -> None:
    """Export the audit log to standard output, oldest first, as JSON or CEF lines.

    \b
    Example:
      towline audit export --since 2026-01-01T00:00:00Z > audit.jsonl
      towline audit export --format cef --kind sign-in
    """
    parameters = {"format": form.value, **only.query(connect(context))}
    stream: LineStream = load("towline.client").GraphQLClient(selected_target(context))
    for line in stream.lines(
        "/audit/export", **{key: value for key, value in parameters.items() if value}
    ):
        sys.stdout.write(escape_controls(line.decode()))


@app.command("chains")
def chains(context: typer.Context, output: Output = Format.TABLE) -> None:
    """Show the newest hash of each audit chain; keep a copy elsewhere to verify the log later.

    \b
    Example:
      towline audit chains -o json > heads.json
    """
    show(operations.audit_chains(connect(context)), CHAINS, output, "hash")


def newest(
    api: GraphQLApi, query: str | None, limit: int, entry_filter: "AuditLogFilter | None" = None
) -> list[AuditRow]:
    """Returns the newest rows of the audit log, oldest first."""
    return list(islice(_newest_first(api, query, entry_filter), limit))[::-1]


def newer(
    api: GraphQLApi, query: str | None, after_id: int, entry_filter: "AuditLogFilter | None" = None
) -> list[AuditRow]:
    """Returns the rows after the id `after_id`, oldest first."""
    rows = takewhile(lambda row: int(row["id"]) > after_id, _newest_first(api, query, entry_filter))
    return list(rows)[::-1]


def _wait_for_more(
    api: GraphQLApi, query: str | None, last: int, entry_filter: "AuditLogFilter"
) -> list[AuditRow]:
    while True:
        time.sleep(POLL_SECONDS)
        if rows := newer(api, query, last, entry_filter):
            return rows


def _newest_first(
    api: GraphQLApi, query: str | None, entry_filter: "AuditLogFilter | None"
) -> Iterator[AuditRow]:
    return islice(operations.audit(api, q=query, filter=entry_filter), _MAX_ROWS)


def _print_more(rows: list[AuditRow], output: Format) -> None:
    if not output.is_table:
        for row in rows:
            show(row, COLUMNS, output, "id")
        return
    for row in rows:
        print(escape_controls(_follow_line(row)), flush=True)


def _follow_line(row: AuditRow) -> str:
    """Formats one row without alignment: printed columns cannot grow with later rows."""
    return "  ".join(str(column.cell(row) or "") for column in COLUMNS)


app.command("replay")(replay.replay)
