"""The error classes of all parts; GraphQL, HTTP and gRPC carry their code.

A message tells its reader what failed, where, and what to do.
Every edge masks other exceptions as `INTERNAL`.
"""

from collections.abc import Mapping
from enum import StrEnum


class Code(StrEnum):
    """Codes of `errors[].extensions.code`; the wire and HTTP map to the same set."""

    UNAUTHENTICATED = "UNAUTHENTICATED"
    FORBIDDEN = "FORBIDDEN"
    NOT_FOUND = "NOT_FOUND"
    INVALID = "INVALID"
    CONFLICT = "CONFLICT"
    LIMIT = "LIMIT"
    UNAVAILABLE = "UNAVAILABLE"
    INTERNAL = "INTERNAL"


HTTP_STATUS: Mapping[Code, int] = {
    Code.UNAUTHENTICATED: 401,
    Code.FORBIDDEN: 403,
    Code.NOT_FOUND: 404,
    Code.INVALID: 400,
    Code.CONFLICT: 409,
    Code.LIMIT: 429,
    Code.UNAVAILABLE: 503,
    Code.INTERNAL: 500,
}


class TowlineError(Exception):
    """A failure with a code and a message for the caller.

    `retry_after` is the number of seconds after which a retry may help; None: unknown.
    """

    code = Code.INTERNAL

    def __init__(self, message: str, *, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.retry_after = retry_after


class Unauthenticated(TowlineError):
    """The caller is not authenticated: the token is missing, invalid, expired or revoked."""

    code = Code.UNAUTHENTICATED


class Forbidden(TowlineError):
    """The caller lacks a permission; the message names it."""

    code = Code.FORBIDDEN


class NotFound(TowlineError):
    """The resource is absent or invisible to the caller; both give the same error.

    `kind` is the kind of the resource: a caller that may read none of this kind gets Forbidden.
    """

    code = Code.NOT_FOUND

    def __init__(self, message: str = "could not find resource", *, kind: str = "") -> None:
        super().__init__(message)
        self.kind = kind


class Invalid(TowlineError):
    """Invalid input; `field` names the field, if there is one."""

    code = Code.INVALID

    def __init__(self, message: str, *, field: str | None = None) -> None:
        super().__init__(f"{field}: {message}" if field else message)
        self.field = field


class Conflict(TowlineError):
    """The state has changed or the name is taken; the message gives the current state.

    `current` holds the conflicting fields that the caller may read, for programs.
    """

    code = Code.CONFLICT

    def __init__(self, message: str, *, current: Mapping[str, object] | None = None) -> None:
        super().__init__(message)
        self.current = dict(current or {})


class LimitExceeded(TowlineError):
    """The request exceeds a limit of the installation; retry later or request less."""

    code = Code.LIMIT


class Unavailable(TowlineError):
    """A dependency is unavailable: an agent, a git server, the store."""

    code = Code.UNAVAILABLE


class AccessDenied(Unavailable):
    """A server refuses the credentials, or shows no such resource to them.

    A retry fails until a user changes the address, the credentials or their permissions.
    """


_ACCESS_DENIED = "ACCESS_DENIED"
TERMINAL_REASONS = frozenset(
    {Code.INVALID, Code.NOT_FOUND, Code.FORBIDDEN, Code.UNAUTHENTICATED, _ACCESS_DENIED}
)
"""Reasons of failures that last until a user changes something. Others may end by a retry."""


def reason_of(error: TowlineError) -> str:
    """Returns the reason of a failure, for programs: its code, or `ACCESS_DENIED`."""
    return _ACCESS_DENIED if isinstance(error, AccessDenied) else error.code.value
