"""HTTP responses, and the port of the client that receives them."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import Protocol

MAX_REPLY_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class HttpReply:
    """An HTTP response; header names are in lower case.

    `truncated`: the body was longer than the limit, and only its beginning is here.
    """

    status: int
    headers: Mapping[str, str]
    body: bytes
    truncated: bool = False


class HttpClient(Protocol):
    """Sends requests to allowed addresses."""

    async def request(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str],
        body: bytes = b"",
        *,
        max_bytes: int = MAX_REPLY_BYTES,
        redirects: int = 0,
    ) -> HttpReply:
        """Returns the response, truncated at `max_bytes`.

        Follows at most `redirects` redirects. Raises Unavailable without a response, and the error
        of the address guard for a forbidden address.
        """
        ...


def retry_after(headers: Mapping[str, str], now: datetime) -> float | None:
    """Parses Retry-After, seconds or a date (RFC 9110, 10.2.3); None without one."""
    text = headers.get("retry-after", "")
    if text.isdecimal() and len(text) < 8:
        return float(text)
    try:
        return max((parsedate_to_datetime(text) - now).total_seconds(), 0.0)
    except (ValueError, TypeError):
        return None
