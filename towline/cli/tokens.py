"""`towline tokens …`."""

from typing import Annotated

import typer

from fleet.errors import Invalid
from towline.cli import documents
from towline.cli.output import Format, field, say, show, since
from towline.cli.places import scope_of
from towline.cli.session import Api, Json, Output, connect

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
    scope: Annotated[
        list[str] | None,
        typer.Option(help="Only there, like cluster/dev; repeat for more."),
    ] = None,
    verb: Annotated[
        list[str] | None, typer.Option(help="Only this, like read; repeat for more.")
    ] = None,
    service_account: Annotated[
        str | None, typer.Option(help="Address of the service account that carries it.")
    ] = None,
    output: Output = Format.TABLE,
) -> None:
    """Make a token and print it, once.

    \b
    Example:
      towline tokens create terraform --days 30 > token
      towline tokens create ci --verb read --scope project/shop
    """
    api = connect(context)
    attributes: Json = {"name": name, "expiresInDays": days}
    if scope or verb:
        scopes = [scope_of(api, one) for one in scope or ()]
        verbs = [one.upper() for one in verb or ()]
        attributes["scopes"] = [{"verbs": verbs, "scopes": scopes}]
    made = _make(api, attributes, service_account)
    if output is Format.TABLE:
        print(made["token"])
        say(f"token {made['id']}, shown only now, lives until {made['expiresAt']}")
    else:
        show(made, COLUMNS, output, "id")


def _make(api: Api, attributes: Json, account: str | None) -> Json:
    if account is None:
        return api.ask(documents.CREATE_TOKEN, attributes=attributes)["createAccessToken"]
    if "scopes" in attributes:
        raise Invalid("a service account is narrowed by its roles, not by scopes of its tokens")
    user = api.ask(documents.USER, email=account)["user"]
    asked = {"id": user["id"], "attributes": attributes}
    return api.ask(documents.CREATE_ACCOUNT_TOKEN, **asked)["createServiceAccountToken"]


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
