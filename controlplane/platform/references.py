"""References to other resources in the input of an operation."""

from collections.abc import Generator
from contextlib import contextmanager

from core.errors import NotFound


@contextmanager
def reference(field: str, id: str | None) -> Generator[None]:
    """Names the field of a reference to a missing resource.

    The message of a bare NotFound means the resource of the operation itself: programs such as
    Terraform take it for a deletion.
    """
    try:
        yield
    except NotFound as error:
        noun, given = error.kind or "resource", str(id)[:80]
        message = f'{field}: {noun} "{given}" does not exist, or you may not read it'
        raise NotFound(message, kind=error.kind) from None
