"""`towline streams …`."""

from typing import Annotated

import typer

from towline.cli import documents
from towline.cli.output import Column, Format, field, say, show, since
from towline.cli.session import Output, connect

app = typer.Typer(no_args_is_help=True, help="Requests to clusters that are under way.")

COLUMNS = (
    field("ID"),
    since("OPEN", "since"),
    field("CLUSTER"),
    field("USER"),
    Column("AS", lambda row: row["actingAs"] if row["actingAs"] != row["user"] else ""),
    field("WHAT"),
    field("KIND"),
    Column("IN", lambda row: int(row["bytesIn"])),
    Column("OUT", lambda row: int(row["bytesOut"])),
    field("FROM", "source"),
)


@app.command("list")
def list_streams(
    context: typer.Context,
    cluster: Annotated[str | None, typer.Option(help="Only into the one of this handle.")] = None,
    user: Annotated[str | None, typer.Option(help="Only those of this user.")] = None,
    output: Output = Format.TABLE,
) -> None:
    """List open requests: your own, and all into clusters that you administer.

    \b
    Example:
      towline streams list --cluster production
    """
    found = connect(context).ask(documents.STREAMS, cluster=cluster, user=user)["openStreams"]
    show(found["nodes"], COLUMNS, output, "id")
    if found["silent"]:
        say(f"no answer from {', '.join(found['silent'])}: their requests are missing here")


@app.command("end")
def end_stream(
    context: typer.Context,
    stream: Annotated[str, typer.Argument(metavar="ID", help="Id of the request; see `list`.")],
    output: Output = Format.TABLE,
) -> None:
    """End an open request; its user sees the connection break.

    \b
    Example:
      towline streams end 4f1c2a9e0b7d4c6f8a3e5d2b1c0f9e8d
    """
    ended = connect(context).ask(documents.END_STREAM, id=stream)["endStream"]
    if output is Format.TABLE:
        say(f"ended: {ended['what']} of {ended['user']} on {ended['cluster']}")
    else:
        show(ended, COLUMNS, output, "id")
