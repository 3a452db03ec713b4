"""Port for requests to addresses that users give."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class HttpReply:
    """An HTTP response; header names are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class GuardedClient(Protocol):
    """Sends requests to addresses that users have configured, except forbidden ones."""

    async def post(self, url: str, headers: Mapping[str, str], body: bytes) -> int:
        """Returns the status of the response. Raises Unavailable if there is none, or if the
        address is private.
        """
        ...

    async def ask(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes = b""
    ) -> HttpReply:
        """Returns the response, truncated at 1 MiB. Raises Unavailable as `post` does."""
        ...

    async def syslog(self, url: str, messages: Sequence[bytes]) -> None:
        """Sends RFC 5424 messages. Raises Unavailable if they were not accepted."""
        ...
