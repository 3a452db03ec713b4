"""Responses of the proxy itself: Kubernetes `Status` objects with messages that kubectl prints
well.
"""

from dataclasses import dataclass
from datetime import timedelta
from http import HTTPStatus

from core.errors import HTTP_STATUS, TowlineError
from proxy.gateway.status import Encoding, encode_status

_REASONS = {
    400: "BadRequest",
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    405: "MethodNotAllowed",
    408: "Timeout",
    409: "Conflict",
    413: "RequestEntityTooLarge",
    417: "BadRequest",
    429: "TooManyRequests",
    431: "BadRequest",
    500: "InternalError",
    502: "BadGateway",
    503: "ServiceUnavailable",
    504: "Timeout",
}


@dataclass(frozen=True, slots=True)
class ErrorResponse:
    """A response of the proxy itself: status code and message."""

    status: int
    message: str


def response_for(error: TowlineError) -> ErrorResponse:
    """Translates an error into an HTTP response."""
    return ErrorResponse(HTTP_STATUS[error.code], error.message)


def encode(
    response: ErrorResponse,
    *,
    close: bool,
    head_request: bool = False,
    encoding: Encoding = Encoding.JSON,
) -> bytes:
    """Encodes the whole response.
    It repeats the message as a Warning, because kubectl with a cold cache discards the one in the
    body.
    """
    reason = _REASONS.get(response.status, "")
    body = encode_status(response.status, reason, response.message, encoding)
    lines = [
        f"HTTP/1.1 {response.status} {_phrase(response.status)}",
        f"Content-Type: {encoding.value}",
        f"Content-Length: {len(body)}",
        f'Warning: 299 towline "{_quoted(response.message)}"',
    ]
    if response.status == 405:
        lines.append("Allow: GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS")
    if response.status == 401:
        lines.append("WWW-Authenticate: Bearer")
    if response.status == 429:
        lines.append("Retry-After: 1")
    if close:
        lines.append("Connection: close")
    head = "\r\n".join([*lines, "", ""]).encode("ascii", "replace")
    return head if head_request else head + body


def age(span: timedelta) -> str:
    """Formats a duration for people: `3m12s`, `5h02m`, `2d04h`."""
    seconds = max(0, int(span.total_seconds()))
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    if days:
        return f"{days}d{hours:02}h"
    if hours:
        return f"{hours}h{minutes:02}m"
    return f"{minutes}m{seconds:02}s" if minutes else f"{seconds}s"


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "Error"


def _quoted(text: str) -> str:
    """Escapes text for a quoted-string (RFC 9110 section 5.6.4)."""
    printable = "".join(char if char.isprintable() else " " for char in text)
    return printable.replace("\\", "\\\\").replace('"', '\\"')
