"""`towline groups …`."""

from typing import Annotated

import typer

from towline.cli import documents, users
from towline.cli.output import Format, field, show
from towline.cli.session import GraphQLApi, Json, Output, Search, connect, every

app = typer.Typer(no_args_is_help=True, help="User groups; for administrators.")

COLUMNS = (field("NAME"), field("DESCRIPTION"), field("ALL USERS", "global"), field("ISSUER"))
Name = Annotated[str, typer.Argument(help="Name of the group.")]
Email = Annotated[str, typer.Argument(help="Email address of the user.")]


@app.command("list")
def list_groups(
    context: typer.Context, query: Search = None, output: Output = Format.TABLE
) -> None:
    """List groups.

    \b
    Example:
      towline groups list
    """
    show(every(connect(context), documents.GROUPS, q=query), COLUMNS, output, "name")


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
    attributes: Json = {"name": name, "description": description, "issuer": issuer}
    attributes |= {"global": True} if everybody else {}
    made = connect(context).ask(documents.CREATE_GROUP, attributes=attributes)["createGroup"]
    show(made, COLUMNS, output, "name")


@app.command("delete")
def delete_group(context: typer.Context, name: Name, output: Output = Format.TABLE) -> None:
    """Delete a group and its role bindings.

    \b
    Example:
      towline groups delete shop-team
    """
    api = connect(context)
    gone = api.ask(documents.DELETE_GROUP, id=_id(api, name))["deleteGroup"]
    show(gone, COLUMNS, output, "name")


@app.command("members")
def list_members(context: typer.Context, name: Name, output: Output = Format.TABLE) -> None:
    """List the members of a group.

    \b
    Example:
      towline groups members shop-team
    """
    api = connect(context)
    found = api.ask(documents.GROUP_MEMBERS, id=_id(api, name))["groupMembers"]
    show(found, users.COLUMNS, output, "email")


@app.command("add")
def add_member(
    context: typer.Context, name: Name, email: Email, output: Output = Format.TABLE
) -> None:
    """Add a user to a group.

    \b
    Example:
      towline groups add shop-team ada@example.org
    """
    _change(context, documents.ADD_MEMBER, name, email, output)


@app.command("remove")
def remove_member(
    context: typer.Context, name: Name, email: Email, output: Output = Format.TABLE
) -> None:
    """Remove a user from a group.

    \b
    Example:
      towline groups remove shop-team ada@example.org
    """
    _change(context, documents.REMOVE_MEMBER, name, email, output)


def _change(context: typer.Context, document: str, name: str, email: str, output: Format) -> None:
    api = connect(context)
    user = api.ask(documents.USER, email=email)["user"]
    (changed,) = api.ask(document, groupId=_id(api, name), userId=user["id"]).values()
    show(changed["user"], users.COLUMNS, output, "email")


def _id(api: GraphQLApi, name: str) -> str:
    return api.ask(documents.GROUP, name=name)["group"]["id"]
