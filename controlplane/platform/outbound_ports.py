"""Port for requests to addresses that users give."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from core.outbound.reply import HttpClient


class GuardedClient(HttpClient, Protocol):
    """Sends requests to addresses that users have configured, except forbidden ones."""

    async def post(self, url: str, headers: Mapping[str, str], body: bytes) -> int:
        """Returns the status of the response. Raises Unavailable if there is none, or if the
        address is private.
        """
        ...

    async def syslog(self, url: str, messages: Sequence[bytes]) -> None:
        """Sends RFC 5424 messages. Raises Unavailable if they were not accepted."""
        ...
