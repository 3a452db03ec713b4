"""`towline views …`."""

from typing import Annotated

import typer

from towline.cli.shell.confirmation import Yes, confirm_deletion
from towline.cli.shell.formats import Format, Output
from towline.cli.shell.output import Column, field, show
from towline.cli.shell.session import connect
from towline.cli.views import generated as operations
from towline.cli.views.filters import find_view
from towline.cli.views.generated import SavedView

app = typer.Typer(no_args_is_help=True, help="Saved views of lists. The console saves them.")


def _filter(view: SavedView) -> str:
    others = [f"{name}:{value}" for name, value in sorted(view["filters"].items())]
    return " ".join(filter(None, (view["query"], *others)))


COLUMNS: tuple[Column[SavedView], ...] = (
    field("LIST"),
    field("NAME"),
    Column("FILTER", _filter),
    Column("SHARED WITH", lambda view: view["sharing"].lower()),
    field("OWNER"),
    field("ID", wide=True),
)
List = Annotated[
    str | None, typer.Option("--list", help="Only views of this list, such as services.")
]


@app.command("list")
def list_views(context: typer.Context, list: List = None, output: Output = Format.TABLE) -> None:
    """List your views, and views that others share with you.

    \b
    Example:
      towline views list --list services
      towline services list --view failed
    """
    show(operations.saved_views(connect(context), list=list), COLUMNS, output, "name")


@app.command("delete")
def delete_view(
    context: typer.Context,
    view: Annotated[str, typer.Argument(help="Name or id of the view.")],
    list: List = None,
    yes: Yes = False,
    output: Output = Format.TABLE,
) -> None:
    """Delete a view.

    \b
    Example:
      towline views delete failed --list services
    """
    confirm_deletion(f"view {view}", yes=yes)
    api = connect(context)
    show(operations.delete_view(api, find_view(api, view, list)["id"]), COLUMNS, output, "name")
