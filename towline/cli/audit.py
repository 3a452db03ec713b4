"""`towline audit`."""

import time
from collections.abc import Iterator
from typing import Annotated

import typer

from towline.cli import documents, replay
from towline.cli.output import Column, Format, Row, field, printable, show
from towline.cli.session import PAGE, Api, Json, Output, Search, connect

app = typer.Typer(invoke_without_command=True)

POLL_SECONDS = 2.0
_MOST_PAGES = 100
COLUMNS = (
    field("AT"),
    field("ACTOR"),
    field("ACTION"),
    field("TARGET"),
    Column("RESULT", lambda row: row["status"] or row["verdict"]),
    field("FROM", "source"),
)


@app.callback()
def audit(
    context: typer.Context,
    follow: Annotated[bool, typer.Option("--follow", help="Go on until Ctrl-C.")] = False,
    query: Search = None,
    limit: Annotated[int, typer.Option(min=1, max=1_000, help="How many to begin with.")] = 50,
    output: Output = Format.TABLE,
) -> None:
    """Show who did what, and every request to a cluster, oldest first.

    \b
    Example:
      towline audit --follow
      towline audit -q approveGate -o json
    """
    if context.invoked_subcommand is not None:
        return
    api = connect(context)
    rows = newest(api, query, limit)
    if not follow:
        return show(rows, COLUMNS, output, "id")
    while True:
        _print_more(rows, output)
        last = max((int(row["id"]) for row in rows), default=0)
        rows = _wait_for_more(api, query, last)


def newest(api: Api, query: str | None, limit: int) -> list[Json]:
    """The newest rows of the trail, oldest first."""
    rows: list[Json] = []
    for row in _walk_back(api, query):
        rows.append(row)
        if len(rows) == limit:
            break
    return rows[::-1]


def newer(api: Api, query: str | None, than: int) -> list[Json]:
    """Rows that came after one, oldest first."""
    rows: list[Json] = []
    for row in _walk_back(api, query):
        if int(row["id"]) <= than:
            break
        rows.append(row)
    return rows[::-1]


def _wait_for_more(api: Api, query: str | None, last: int) -> list[Json]:
    while True:
        time.sleep(POLL_SECONDS)
        if rows := newer(api, query, last):
            return rows


def _walk_back(api: Api, query: str | None) -> Iterator[Json]:
    after = None
    for _ in range(_MOST_PAGES):
        page = api.ask(documents.AUDIT, first=PAGE, after=after, q=query)["auditLogs"]
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
        print(printable(_follow_line(row)), flush=True)


def _follow_line(row: Row) -> str:
    """A line by itself: later rows cannot widen columns already printed."""
    return "  ".join(str(column.cell(row) or "") for column in COLUMNS)


app.command("replay")(replay.replay)
