"""`towline streams …`."""

from typing import Annotated

import typer

from towline.cli.reports import generated as operations
from towline.cli.reports.generated import Stream
from towline.cli.shell.formats import Format, Output
from towline.cli.shell.output import Column, age_column, field, say, show
from towline.cli.shell.session import connect

app = typer.Typer(no_args_is_help=True, help="Open requests to clusters.")

COLUMNS: tuple[Column[Stream], ...] = (
    field("ID"),
    age_column("OPENED", "since"),
    field("CLUSTER"),
    field("USER"),
    Column("AS", lambda row: row["actingAs"] if row["actingAs"] != row["user"] else ""),
    field("REQUEST", "what"),
    field("KIND"),
    Column("BYTES IN", lambda row: int(row["bytesIn"])),
    Column("BYTES OUT", lambda row: int(row["bytesOut"])),
    field("FROM", "source"),
)


@app.command("list")
def list_streams(
    context: typer.Context,
    cluster: Annotated[str | None, typer.Option(help="Filter by cluster, by handle.")] = None,
    user: Annotated[str | None, typer.Option(help="Filter by user.")] = None,
    output: Output = Format.TABLE,
) -> None:
    """List your open requests, and all requests to clusters that you administer.

    \b
    Example:
      towline streams list --cluster production
    """
    page = operations.streams(connect(context), cluster=cluster, user=user)
    show(page["nodes"], COLUMNS, output, "id")
    if page["silent"]:
        say(f"replicas did not respond: {', '.join(page['silent'])}; their requests are missing")


@app.command("end")
def end_stream(
    context: typer.Context,
    stream: Annotated[
        str, typer.Argument(metavar="ID", help="Id of the request, as `list` shows it.")
    ],
    output: Output = Format.TABLE,
) -> None:
    """End an open request by closing its connection.

    \b
    Example:
      towline streams end 4f1c2a9e0b7d4c6f8a3e5d2b1c0f9e8d
    """
    ended = operations.end_stream(connect(context), stream)
    if output.is_table:
        say(f"ended {ended['what']} of {ended['user']} on {ended['cluster']}")
    else:
        show(ended, COLUMNS, output, "id")
