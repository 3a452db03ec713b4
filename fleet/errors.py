"""One error family for every part; it crosses GraphQL, HTTP and gRPC with its code.

An error's message is written for the person who reads it: what failed, where, what to do.
Whatever is not a `TowlineError` is masked as `INTERNAL` at each edge.
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
    """A failure with a code and a sentence that may be shown to the caller.

    `retry_after` (seconds) tells whether trying again may help, and when.
    """

    code = Code.INTERNAL

    def __init__(self, message: str, *, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.retry_after = retry_after


class Unauthenticated(TowlineError):
    """The caller has not shown who it is: no token, a wrong, expired or revoked one."""

    code = Code.UNAUTHENTICATED


class Forbidden(TowlineError):
    """The caller is known and lacks the right; the message names the right."""

    code = Code.FORBIDDEN


class NotFound(TowlineError):
    """Absent, or not visible to the caller: both read alike."""

    code = Code.NOT_FOUND

    def __init__(self, message: str = "could not find resource") -> None:
        super().__init__(message)


class Invalid(TowlineError):
    """Input that can never work as given; `field` names the place where there is one."""

    code = Code.INVALID

    def __init__(self, message: str, *, field: str | None = None) -> None:
        super().__init__(f"{field}: {message}" if field else message)
        self.field = field


class Conflict(TowlineError):
    """The state has moved on, or the name is taken; the message tells the current state.

    `current` has it for programs: what the caller may read of what stands in the way.
    """

    code = Code.CONFLICT

    def __init__(self, message: str, *, current: Mapping[str, object] | None = None) -> None:
        super().__init__(message)
        self.current = dict(current or {})


class LimitExceeded(TowlineError):
    """More than the installation allows; try again later or ask for less."""

    code = Code.LIMIT


class Unavailable(TowlineError):
    """Something this depends on is away: an agent, a git server, the store."""

    code = Code.UNAVAILABLE
