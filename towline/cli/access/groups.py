"""`towline groups …`."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

import typer

from towline.cli.access import generated as operations
from towline.cli.access import users
from towline.cli.access.find import find_user, find_user_group
from towline.cli.access.generated import Group, Member
from towline.cli.shell.confirmation import Yes, confirm_deletion
from towline.cli.shell.formats import Format, Output
from towline.cli.shell.output import Column, field, show
from towline.cli.shell.resource_commands import add_list
from towline.cli.shell.session import connect
from towline.operations import GraphQLApi

if TYPE_CHECKING:
    from towline.generated_inputs import GroupAttributes

app = typer.Typer(no_args_is_help=True, help="User groups; for administrators.")

COLUMNS: tuple[Column[Group], ...] = (
    field("NAME"),
    field("DESCRIPTION"),
    field("ALL USERS", "global"),
    field("ISSUER"),
)
Name = Annotated[str, typer.Argument(help="Name of the group.")]
Email = Annotated[str, typer.Argument(help="Email address of the user.")]


add_list(app, "towline groups list", "List groups.", operations.groups, COLUMNS, "name")


@app.command("create")
def create_group(
    context: typer.Context,
    name: Name,
    description: Annotated[str | None, typer.Option(help="Description.")] = None,
    everybody: Annotated[bool, typer.Option("--all-users", help="Include all users.")] = False,
    issuer: Annotated[
        str | None, typer.Option(help="URL of the identity provider that manages the members.")
    ] = None,
    output: Output = Format.TABLE,
) -> None:
    """Create a group; with --issuer, use the name that the identity provider has for it.

    \b
    Example:
      towline groups create shop-team
      towline groups create platform --issuer https://idp.example.org
    """
    attributes: GroupAttributes = {"name": name, "description": description, "issuer": issuer}
    if everybody:
        attributes["global"] = True
    show(operations.create_group(connect(context), attributes), COLUMNS, output, "name")


@app.command("delete")
def delete_group(
    context: typer.Context, name: Name, yes: Yes = False, output: Output = Format.TABLE
) -> None:
    """Delete a group and its role bindings.

    \b
    Example:
      towline groups delete shop-team
    """
    confirm_deletion(f"group {name}", yes=yes)
    api = connect(context)
    show(operations.delete_group(api, _id(api, name)), COLUMNS, output, "name")


@app.command("members")
def list_members(context: typer.Context, name: Name, output: Output = Format.TABLE) -> None:
    """List the members of a group.

    \b
    Example:
      towline groups members shop-team
    """
    api = connect(context)
    show(operations.group_members(api, _id(api, name)), users.COLUMNS, output, "email")


@app.command("add")
def add_member(
    context: typer.Context, name: Name, email: Email, output: Output = Format.TABLE
) -> None:
    """Add a user to a group.

    \b
    Example:
      towline groups add shop-team ada@example.org
    """
    _change_membership(context, operations.add_member, name, email, output)


@app.command("remove")
def remove_member(
    context: typer.Context, name: Name, email: Email, output: Output = Format.TABLE
) -> None:
    """Remove a user from a group.

    \b
    Example:
      towline groups remove shop-team ada@example.org
    """
    _change_membership(context, operations.remove_member, name, email, output)


def _change_membership(
    context: typer.Context,
    change: Callable[[GraphQLApi, str, str], Member],
    name: str,
    email: str,
    output: Format,
) -> None:
    api = connect(context)
    user_id = find_user(api, email)["id"]
    show(change(api, _id(api, name), user_id)["user"], users.COLUMNS, output, "email")


def _id(api: GraphQLApi, name: str) -> str:
    return find_user_group(api, name)["id"]
