"""`towline tokens …`."""

from typing import Annotated

import typer

from towline.cli import documents
from towline.cli.output import Format, field, say, show, since
from towline.cli.session import Output, connect

app = typer.Typer(no_args_is_help=True, help="Your access tokens.")

COLUMNS = (
    field("ID"),
    field("NAME"),
    since("MADE", "insertedAt"),
    since("USED", "lastUsedAt"),
    field("EXPIRES", "expiresAt"),
    field("REVOKED", "revokedAt"),
)


@app.command("list")
def list_tokens(context: typer.Context, output: Output = Format.TABLE) -> None:
    """List your tokens, never their secrets.

    \b
    Example:
      towline tokens list
    """
    show(connect(context).ask(documents.TOKENS)["accessTokens"], COLUMNS, output, "id")


@app.command("create")
def create_token(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="What it is for.")],
    days: Annotated[int, typer.Option(min=1, max=366, help="How long it lives.")] = 90,
    output: Output = Format.TABLE,
) -> None:
    """Make a token and print it, once.

    \b
    Example:
      towline tokens create terraform --days 30 > token
    """
    attributes = {"name": name, "expiresInDays": days}
    made = connect(context).ask(documents.CREATE_TOKEN, attributes=attributes)["createAccessToken"]
    if output is Format.TABLE:
        print(made["token"])
        say(f"token {made['id']}, shown only now, lives until {made['expiresAt']}")
    else:
        show(made, COLUMNS, output, "id")


@app.command("delete")
def delete_token(
    context: typer.Context,
    token: Annotated[str, typer.Argument(metavar="ID", help="Id of the token; see `list`.")],
    output: Output = Format.TABLE,
) -> None:
    """Revoke a token; what it opened ends within seconds.

    \b
    Example:
      towline tokens delete 01890a5d-ac96-774b-bcce-b302099a8057
    """
    gone = connect(context).ask(documents.DELETE_TOKEN, id=token)["deleteAccessToken"]
    show(gone, COLUMNS, output, "id")
