"""Options of commands that wait."""

from typing import Annotated

import typer

from core.errors import Invalid
from towline.cli.shell.polling import seconds

Timeout = Annotated[str, typer.Option(help="Maximum time to wait, such as 90s or 15m.")]
WithWait = Annotated[
    str | None,
    typer.Option("--timeout", help="With --wait: maximum time, such as 90s or 15m (default: 5m)."),
]
DEFAULT_TIMEOUT = "5m"


def timeout_of(timeout: str | None, *, wait: bool) -> int:
    """Returns the seconds to wait. Raises Invalid for a timeout without --wait."""
    if timeout is not None and not wait:
        raise Invalid("--timeout needs --wait")
    return seconds(timeout or DEFAULT_TIMEOUT, "--timeout")
