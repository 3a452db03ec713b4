"""`towline users …`."""

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from towline.cli.access import generated as operations
from towline.cli.access.find import find_user
from towline.cli.access.generated import TrustRule, User
from towline.cli.shell.formats import Format, Output
from towline.cli.shell.option_groups import OptionGroup, option_groups
from towline.cli.shell.output import Column, field, show
from towline.cli.shell.resource_commands import add_list
from towline.cli.shell.selectors import Selector
from towline.cli.shell.session import connect, name_value_pairs, parse_pairs
from towline.input_files import read_text

if TYPE_CHECKING:
    from towline.generated_inputs import TrustRuleAttributes, UserAttributes

app = typer.Typer(no_args_is_help=True, help="Users and their roles; for administrators.")

COLUMNS: tuple[Column[User], ...] = (
    field("EMAIL"),
    field("NAME"),
    field("ROLE"),
    field("KIND"),
    field("DISABLED", "disabledAt"),
    field("ID"),
)

_TRUST: tuple[Column[TrustRule], ...] = (
    field("NAME"),
    field("ISSUER"),
    field("AUDIENCE"),
    field("SUBJECT"),
    field("MINUTES"),
    field("ID"),
)


class InstallationRole(StrEnum):
    """Role for the whole installation."""

    VIEWER = "viewer"
    EDITOR = "editor"
    ADMIN = "admin"


add_list(app, "towline users list", "List users.", operations.users, COLUMNS, "email")


@app.command("set")
def set_user(
    context: typer.Context,
    email: Annotated[str, typer.Argument(help="Email address of the user.")],
    name: Annotated[str | None, typer.Option(help="Display name.")] = None,
    role: Annotated[
        InstallationRole | None,
        typer.Option(help="Role for the whole installation; see also `access grant`."),
    ] = None,
    output: Output = Format.TABLE,
) -> None:
    """Create a user, or update name and role. New users have no permissions until a role is bound.

    Create their first token with `towline admin create-token`, on the control plane's host.

    \b
    Example:
      towline users set ada@example.org --name Ada --role editor
    """
    attributes: UserAttributes = {
        "email": email,
        "name": name,
        "role": role.name if role else None,
    }
    show(operations.upsert_user(connect(context), attributes), COLUMNS, output, "email")


@app.command("disable")
def disable_user(
    context: typer.Context,
    email: Annotated[str, typer.Argument(help="Email address of the user.")],
    undo: Annotated[bool, typer.Option("--enable", help="Enable the user again.")] = False,
    output: Output = Format.TABLE,
) -> None:
    """Disable a user; all tokens and sessions of the user end within seconds.

    \b
    Example:
      towline users disable ada@example.org
    """
    api = connect(context)
    user = find_user(api, email)
    show(operations.disable_user(api, user["id"], not undo), COLUMNS, output, "email")


@app.command("create-service-account")
def create_service_account(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="Name of the service account.")],
    output: Output = Format.TABLE,
) -> None:
    """Create a service account; grant roles to NAME@service-accounts.

    \b
    Example:
      towline users create-service-account ci
    """
    account = operations.create_service_account(connect(context), {"name": name})
    show(account, COLUMNS, output, "email")


class TrustOptions(OptionGroup):
    """Options of a trust rule."""

    name: Annotated[str, typer.Option(help="Unique name of the trust rule.")]
    issuer: Annotated[str, typer.Option(help="Issuer of the tokens, an https URL.")]
    audience: Annotated[str, typer.Option(help="Required audience of the tokens.")]
    subject: Annotated[str, typer.Option(help="Required subject; `*` matches any text.")]
    claim: Annotated[
        list[str] | None, typer.Option(help="Required claim, as name=pattern; repeatable.")
    ] = None
    keys: Annotated[
        Path | None, typer.Option(help="JWKS file, for an issuer that is not reachable.")
    ] = None
    minutes: Annotated[
        int, typer.Option(min=1, max=1440, help="Lifetime of the issued tokens in minutes.")
    ] = 60


@app.command("trust")
@option_groups
def trust(
    context: typer.Context,
    email: Annotated[str, typer.Argument(help="Email address of the service account.")],
    rule: TrustOptions,
    output: Output = Format.TABLE,
) -> None:
    """Let CI systems or clusters exchange their OIDC tokens for tokens of a service account.

    \b
    Example:
      towline users trust ci@service-accounts --name shop-releases \\
        --issuer https://token.actions.githubusercontent.com --audience towline \\
        --subject "repo:acme/shop:*" --claim environment=prod
    """
    keys = read_text(rule.keys, "--keys") if rule.keys else None
    api = connect(context)
    attributes: TrustRuleAttributes = {
        "name": rule.name,
        "serviceAccountId": find_user(api, email)["id"],
        "issuer": rule.issuer,
        "audience": rule.audience,
        "subject": rule.subject,
        "claims": name_value_pairs(parse_pairs(rule.claim, "claim")),
        "minutes": rule.minutes,
        "keys": keys,
    }
    show(operations.create_trust_rule(api, attributes), _TRUST, output, "id")


@app.command("trust-rules")
def list_trust_rules(
    context: typer.Context, selector: Selector = None, output: Output = Format.TABLE
) -> None:
    """List the trust rules, which exchange external tokens for tokens of service accounts.

    \b
    Example:
      towline users trust-rules
      towline users trust-rules -l team=shop
    """
    api = connect(context)
    show(operations.trust_rules(api, labels=selector), _TRUST, output, "id")
