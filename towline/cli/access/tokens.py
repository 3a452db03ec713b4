"""`towline tokens …`."""

from typing import TYPE_CHECKING, Annotated

import typer

from core.errors import Invalid
from towline.cli.access import generated as operations
from towline.cli.access.find import find_user
from towline.cli.access.generated import NewToken, Token
from towline.cli.access.resource_names import scope_of
from towline.cli.shell.confirmation import Yes, confirm_deletion
from towline.cli.shell.formats import Format, Output
from towline.cli.shell.output import Column, age, age_column, field, say, show
from towline.cli.shell.session import connect, first_found
from towline.operations import GraphQLApi

if TYPE_CHECKING:
    from towline.generated_inputs import AccessTokenAttributes

app = typer.Typer(no_args_is_help=True, help="Your access tokens.")

COLUMNS: tuple[Column[Token], ...] = (
    field("ID"),
    field("NAME"),
    age_column("CREATED", "insertedAt"),
    age_column("LAST USED", "lastUsedAt"),
    age_column("EXPIRES", "expiresAt"),
    field("REVOKED", "revokedAt"),
)


@app.command("list")
def list_tokens(context: typer.Context, output: Output = Format.TABLE) -> None:
    """List your tokens, never their secrets.

    \b
    Example:
      towline tokens list
    """
    show(operations.tokens(connect(context)), COLUMNS, output, "id")


@app.command("create")
def create_token(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="Name of the token.")],
    days: Annotated[int, typer.Option(min=1, max=366, help="Lifetime in days.")] = 90,
    scope: Annotated[
        list[str] | None,
        typer.Option(help="Limit to a scope, such as cluster/dev; repeatable."),
    ] = None,
    verb: Annotated[
        list[str] | None, typer.Option(help="Limit to an operation, such as read; repeatable.")
    ] = None,
    service_account: Annotated[
        str | None, typer.Option(help="Email address of the service account that owns the token.")
    ] = None,
    output: Output = Format.TABLE,
) -> None:
    """Create a token and print it once.

    \b
    Example:
      towline tokens create terraform --days 30 > token
      towline tokens create ci --verb read --scope project/shop
    """
    api = connect(context)
    attributes: AccessTokenAttributes = {"name": name, "expiresInDays": days}
    if scope or verb:
        scopes = [scope_of(api, scope_name) for scope_name in scope or ()]
        verbs = [name.upper() for name in verb or ()]
        attributes["scopes"] = [{"verbs": verbs, "scopes": scopes}]
    created = _create(api, attributes, service_account)
    if output.is_table:
        print(created["token"])
        say(f"token {created['id']}, shown only once, expires {age(created['expiresAt'])}")
    else:
        show(created, COLUMNS, output, "id")


def _create(api: GraphQLApi, attributes: "AccessTokenAttributes", account: str | None) -> NewToken:
    if account is None:
        return operations.create_token(api, attributes)
    if "scopes" in attributes:
        raise Invalid(
            "tokens of service accounts cannot be limited; limit the roles of the account instead"
        )
    return operations.create_account_token(api, find_user(api, account)["id"], attributes)


@app.command("delete")
def delete_token(
    context: typer.Context,
    token: Annotated[str, typer.Argument(help="Name or id of the token, as `list` shows it.")],
    yes: Yes = False,
    output: Output = Format.TABLE,
) -> None:
    """Revoke a token; its open sessions end within seconds.

    \b
    Example:
      towline tokens delete ci
    """
    confirm_deletion(f"token {token}", yes=yes)
    api = connect(context)
    ids = [row["id"] for row in operations.tokens(api) if row["name"] == token]
    if len(ids) > 1:
        raise Invalid(f"{len(ids)} tokens have the name {token}; use an id: {', '.join(ids)}")
    revoked = first_found(
        f"token {token}",
        lambda: operations.delete_token(api, ids[0] if ids else token),
        listed_by="tokens list",
    )
    show(revoked, COLUMNS, output, "id")
