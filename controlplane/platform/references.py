"""References to resources in the input of an operation."""

from collections.abc import Generator
from contextlib import contextmanager
from typing import TypeVar

from core.errors import NotFound

R = TypeVar("R")


def found(row: R | None, kind: str = "") -> R:
    """Returns the row that the caller of an operation named. NotFound: there is none.

    `kind` is the kind of the resource.
    """
    if row is None:
        raise NotFound(kind=kind)
    return row


@contextmanager
def reference(field: str, id: str | None) -> Generator[None]:
    """Names the field of a reference to a missing resource.

    The message of a bare NotFound means the resource of the operation itself: programs such as
    Terraform take it for a deletion.
    """
    try:
        yield
    except NotFound as error:
        noun, shown_id = error.kind or "resource", str(id)[:80]
        message = f'{field}: {noun} "{shown_id}" does not exist, or you may not read it'
        raise NotFound(message, kind=error.kind) from None
