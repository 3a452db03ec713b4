"""`towline audit …`."""

import sys
import time
from collections.abc import Iterator
from enum import StrEnum
from typing import Annotated, Protocol

import typer

from towline.cli import documents, replay
from towline.cli.lazy_import import load
from towline.cli.output import Column, Format, Row, escape_controls, field, show
from towline.cli.session import (
    PAGE,
    GraphQLApi,
    Json,
    Output,
    Search,
    connect,
    find_cluster,
    selected_target,
)

app = typer.Typer(invoke_without_command=True)

POLL_SECONDS = 2.0
_MAX_PAGES = 100
COLUMNS = (
    field("AT"),
    field("ACTOR"),
    field("ACTION"),
    field("TARGET"),
    Column("RESULT", lambda row: row["status"] or row["verdict"]),
    field("FROM", "source"),
)


CHAINS = (
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


Actor = Annotated[str | None, typer.Option(help="Filter by the actor's email address.")]
Action = Annotated[str | None, typer.Option(help="Filter by action; may end in *.")]
TargetFilter = Annotated[
    str | None, typer.Option("--target", help="Filter by target, by name or id.")
]
Cluster = Annotated[str | None, typer.Option(help="Filter by cluster, by handle or id.")]
Result = Annotated[DecisionFilter | None, typer.Option(help="Filter by decision.")]
Kinds = Annotated[KindFilter | None, typer.Option(help="Filter by kind.")]
Since = Annotated[
    str | None, typer.Option(help="Start time (inclusive), such as 2026-01-31T12:00:00Z.")
]
Until = Annotated[str | None, typer.Option(help="End time (exclusive).")]


@app.callback()
def audit(
    context: typer.Context,
    follow: Annotated[bool, typer.Option("--follow", help="Print new rows until Ctrl-C.")] = False,
    query: Search = None,
    actor: Actor = None,
    action: Action = None,
    target: TargetFilter = None,
    cluster: Cluster = None,
    verdict: Result = None,
    kind: Kinds = None,
    since: Since = None,
    until: Until = None,
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
    wanted: Json = {
        "actor": actor,
        "action": action,
        "target": target,
        "clusterId": find_cluster(api, cluster)["id"] if cluster else None,
        "verdict": verdict.name if verdict else None,
        "kind": kind.name if kind else None,
        "since": since,
        "until": until,
    }
    rows = newest(api, query, limit, wanted)
    if not follow:
        return show(rows, COLUMNS, output, "id")
    while True:
        _print_more(rows, output)
        last = max((int(row["id"]) for row in rows), default=0)
        rows = _wait_for_more(api, query, last, wanted)


@app.command("export")
def export(
    context: typer.Context,
    form: Annotated[
        ExportFormat, typer.Option("--format", help="Format of the rows.")
    ] = ExportFormat.JSONL,
    actor: Actor = None,
    action: Action = None,
    target: TargetFilter = None,
    cluster: Cluster = None,
    verdict: Result = None,
    kind: Kinds = None,
    since: Since = None,
    until: Until = None,
) -> None:
    """Export the audit log to standard output, oldest first, as JSON or CEF lines.

    \b
    Example:
      towline audit export --since 2026-01-01T00:00:00Z > audit.jsonl
      towline audit export --format cef --kind sign-in
    """
    found = find_cluster(connect(context), cluster)["id"] if cluster else None
    asked = {
        "format": form.value,
        "actor": actor,
        "action": action,
        "target": target,
        "cluster": found,
        "verdict": verdict.value if verdict else None,
        "kind": kind.value if kind else None,
        "since": since,
        "until": until,
    }
    stream: LineStream = load("towline.client").GraphQLClient(selected_target(context))
    for line in stream.lines("/audit/export", **{k: v for k, v in asked.items() if v}):
        sys.stdout.write(escape_controls(line.decode()))


@app.command("chains")
def chains(context: typer.Context, output: Output = Format.TABLE) -> None:
    """Show the newest hash of each audit chain; keep a copy elsewhere to verify the log later.

    \b
    Example:
      towline audit chains -o json > heads.json
    """
    rows = connect(context).ask(documents.AUDIT_CHAINS)["auditChains"]
    show(rows, CHAINS, output, "hash")


def newest(
    api: GraphQLApi, query: str | None, limit: int, wanted: Json | None = None
) -> list[Json]:
    """Returns the newest rows of the audit log, oldest first."""
    rows: list[Json] = []
    for row in _newest_first(api, query, wanted):
        rows.append(row)
        if len(rows) == limit:
            break
    return rows[::-1]


def newer(api: GraphQLApi, query: str | None, than: int, wanted: Json | None = None) -> list[Json]:
    """Returns the rows after the id `than`, oldest first."""
    rows: list[Json] = []
    for row in _newest_first(api, query, wanted):
        if int(row["id"]) <= than:
            break
        rows.append(row)
    return rows[::-1]


def _wait_for_more(api: GraphQLApi, query: str | None, last: int, wanted: Json) -> list[Json]:
    while True:
        time.sleep(POLL_SECONDS)
        if rows := newer(api, query, last, wanted):
            return rows


def _newest_first(api: GraphQLApi, query: str | None, wanted: Json | None) -> Iterator[Json]:
    after = None
    for _ in range(_MAX_PAGES):
        asked = {"first": PAGE, "after": after, "q": query, "filter": wanted}
        page = api.ask(documents.AUDIT, **asked)["auditLogs"]
        yield from (edge["node"] for edge in page["edges"])
        if not page["pageInfo"]["hasNextPage"]:
            return
        after = page["pageInfo"]["endCursor"]


def _print_more(rows: list[Json], output: Format) -> None:
    if output is not Format.TABLE:
        for row in rows:
            show(row, COLUMNS, output, "id")
        return
    for row in rows:
        print(escape_controls(_follow_line(row)), flush=True)


def _follow_line(row: Row) -> str:
    """Formats one row without alignment: printed columns cannot grow with later rows."""
    return "  ".join(str(column.cell(row) or "") for column in COLUMNS)


app.command("replay")(replay.replay)
