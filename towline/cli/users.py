"""`towline users …`."""

from enum import StrEnum
from typing import Annotated

import typer

from towline.cli import documents
from towline.cli.output import Format, field, show
from towline.cli.session import Output, Search, connect, every

app = typer.Typer(no_args_is_help=True, help="People and their roles; for administrators.")

COLUMNS = (field("EMAIL"), field("NAME"), field("ROLE"), field("ID"))


class Role(StrEnum):
    """What a person may do."""

    VIEWER = "viewer"
    EDITOR = "editor"
    ADMIN = "admin"


@app.command("list")
def list_users(context: typer.Context, query: Search = None, output: Output = Format.TABLE) -> None:
    """List people.

    \b
    Example:
      towline users list
    """
    show(every(connect(context), documents.USERS, q=query), COLUMNS, output, "email")


@app.command("set")
def set_user(
    context: typer.Context,
    email: Annotated[str, typer.Argument(help="Address of the person.")],
    name: Annotated[str | None, typer.Option(help="How they are called.")] = None,
    role: Annotated[Role | None, typer.Option(help="A new person is a viewer.")] = None,
    output: Output = Format.TABLE,
) -> None:
    """Add a person, or change name and role of one.

    Their first token comes from `towline admin create-token`, on the machine of the store.

    \b
    Example:
      towline users set ada@example.org --name Ada --role editor
    """
    attributes = {"email": email, "name": name, "role": role.name if role else None}
    made = connect(context).ask(documents.UPSERT_USER, attributes=attributes)["upsertUser"]
    show(made, COLUMNS, output, "email")
