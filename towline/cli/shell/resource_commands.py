"""Commands that are the same for many kinds of resources."""

from collections.abc import Callable, Iterable, Sequence

import typer

from towline.cli.shell.formats import Format, Output
from towline.cli.shell.output import Column, R, show
from towline.cli.shell.selectors import Selector
from towline.cli.shell.session import Search, connect


def add_list(
    app: typer.Typer,
    call: str,
    sentence: str,
    rows: Callable[..., Iterable[R]],
    columns: Sequence[Column[R]],
    key: str,
) -> None:
    """Adds a command that lists resources, filtered by a text and by labels.

    `call` is the example of its help, such as `towline projects list`; the last word is its name.
    `rows` is the generated operation, and `key` what `-o name` prints.
    """

    def list_resources(
        context: typer.Context,
        query: Search = None,
        selector: Selector = None,
        output: Output = Format.TABLE,
    ) -> None:
        show(rows(connect(context), q=query, labels=selector), columns, output, key)

    app.command(call.rpartition(" ")[2], help=help_text(sentence, call))(list_resources)


def help_text(sentence: str, call: str) -> str:
    """Help of a command, with an example."""
    return f"{sentence}\n\n\b\nExample:\n  {call}"
