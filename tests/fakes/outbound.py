"""A client for addresses that users give, without a network."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson

from core.outbound.reply import HttpReply


@dataclass
class FakeClient:
    """The `GuardedClient` port: lists what it sends.

    `answers` are the statuses or errors of posts, the last one for ever; `replies` answers requests
    by method, URL and body with a status and JSON.
    """

    answers: list[int | Exception] = field(default_factory=lambda: [200])
    replies: Callable[[str, str, bytes], tuple[int, object]] = lambda *_: (200, [])
    posts: list[tuple[str, dict[str, str], Any]] = field(default_factory=list)
    requests: list[tuple[str, str]] = field(default_factory=list)
    lines: list[tuple[str, list[bytes]]] = field(default_factory=list)

    async def post(self, url: str, headers: Mapping[str, str], body: bytes) -> int:
        self.posts.append((url, dict(headers), orjson.loads(body)))
        return self._next()

    async def syslog(self, url: str, messages: Sequence[bytes]) -> None:
        self.lines.append((url, list(messages)))
        self._next()

    async def request(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str],
        body: bytes = b"",
        *,
        max_bytes: int = 0,
        redirects: int = 0,
    ) -> HttpReply:
        self.requests.append((method, url))
        status, content = self.replies(method, url, body)
        return HttpReply(status, {}, orjson.dumps(content))

    def _next(self) -> int:
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer
