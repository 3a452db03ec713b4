"""`towline contexts …`: the control planes that the user is signed in to."""

from typing import Annotated

import typer

from core.errors import Invalid
from towline.cli.shell.formats import Format, Output
from towline.cli.shell.output import Column, escape_controls, field, say, show
from towline.cli.shell.session import global_flags
from towline.context_file import write
from towline.contexts import SavedContexts, config_path, read

app = typer.Typer(help="Control planes that you are signed in to.", no_args_is_help=True)

_CONTEXTS = (
    Column("CURRENT", lambda row: "*" if row["current"] else ""),
    field("NAME"),
    field("URL"),
)


@app.command("list")
def list_contexts(context: typer.Context, output: Output = Format.TABLE) -> None:
    """List the control planes you are signed in to; tokens are never printed.

    \b
    Example:
      towline contexts list
    """
    contexts = read(config_path(global_flags(context)))
    rows = [
        {"name": name, "url": target.url, "current": name == contexts.current}
        for name, target in sorted(contexts.targets.items())
    ]
    show(rows, _CONTEXTS, output, "name")


@app.command("use")
def use(
    context: typer.Context, name: Annotated[str, typer.Argument(help="Name of the context.")]
) -> None:
    """Switch to this context.

    \b
    Example:
      towline contexts use prod
    """
    path = config_path(global_flags(context))
    contexts = read(path)
    _check_known(contexts, name)
    write(path, contexts._replace(current=name))
    say(f"switched to {name} ({contexts.targets[name].url})")


@app.command("current")
def current(context: typer.Context) -> None:
    """Print the name of the current context.

    \b
    Example:
      towline contexts current
    """
    contexts = read(config_path(global_flags(context)))
    _check_known(contexts, contexts.current)
    print(escape_controls(contexts.current))


def _check_known(contexts: SavedContexts, name: str) -> None:
    """Raises Invalid, with the known contexts, if `name` is not one of them."""
    if name in contexts.targets:
        return
    names = ", ".join(sorted(contexts.targets)) or "none"
    problem = f"unknown context {name!r}" if name else "no current context"
    raise Invalid(f"{problem}; choose one of {names}, or run `towline login URL`")
