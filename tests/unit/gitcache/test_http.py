"""The webhook endpoint."""

import hashlib
import hmac
import json
from collections.abc import Mapping

import pytest
from starlette.applications import Starlette
from starlette.types import Message

from fleet.identity import RepositoryId
from gitcache.http import MAX_BODY, webhook_route

SECRET = "correct horse"
SHA = "a" * 40


class Hints:
    """Remembers the hints it was given."""

    def __init__(self) -> None:
        self.given: list[tuple[str, Mapping[str, str] | None]] = []

    async def hint(
        self, repository_id: RepositoryId, announced: Mapping[str, str] | None = None
    ) -> None:
        self.given.append((repository_id, announced))


async def secret_of(repository_id: str) -> str | None:
    return SECRET if repository_id == "shop" else None


async def post(
    hints: Hints,
    path: str,
    body: bytes,
    headers: Mapping[str, str] | None = None,
    *,
    length: str | None = None,
) -> int:
    """The status that the endpoint answers; the body comes in pieces of 1 MiB."""
    app = Starlette(routes=[webhook_route(hints, secret_of)])
    all_headers = {"content-length": length or str(len(body)), **(headers or {})}
    scope = {
        "type": "http",
        "method": "POST",
        "path": path,
        "query_string": b"",
        "headers": [(name.encode(), value.encode()) for name, value in all_headers.items()],
    }
    chunks = [body[start : start + (1 << 20)] for start in range(0, len(body), 1 << 20)] or [b""]
    sent: list[Message] = []

    async def receive() -> Message:
        chunk = chunks.pop(0)
        return {"type": "http.request", "body": chunk, "more_body": bool(chunks)}

    async def send(message: Message) -> None:
        sent.append(message)

    await app(scope, receive, send)
    return sent[0]["status"]


def signed(body: bytes) -> dict[str, str]:
    """GitHub's proof."""
    digest = hmac.new(SECRET.encode(), body, hashlib.sha256).hexdigest()
    return {"x-hub-signature-256": f"sha256={digest}"}


PUSH = json.dumps({"ref": "refs/heads/main", "after": SHA}).encode()


async def test_a_genuine_push_becomes_a_hint() -> None:
    hints = Hints()
    assert await post(hints, "/webhooks/git/github/shop", PUSH, signed(PUSH)) == 202
    assert hints.given == [("shop", {"refs/heads/main": SHA})]


@pytest.mark.parametrize("name", ["forgejo", "gogs", "gitea"])
async def test_relatives_of_gitea_share_its_form(name: str) -> None:
    hints = Hints()
    header = {"x-gitea-signature": signed(PUSH)["x-hub-signature-256"][7:]}
    assert await post(hints, f"/webhooks/git/{name}/shop", PUSH, header) == 202
    assert len(hints.given) == 1


@pytest.mark.parametrize("repository", ["shop", "unknown"])
async def test_wrong_signatures_and_unknown_repositories_read_alike(repository: str) -> None:
    hints = Hints()
    wrong = {"x-hub-signature-256": "sha256=00"}
    assert await post(hints, f"/webhooks/git/github/{repository}", PUSH, wrong) == 401
    assert hints.given == []


async def test_a_repository_without_a_secret_takes_no_hook_with_an_empty_key() -> None:
    hints = Hints()
    digest = hmac.new(b"", PUSH, hashlib.sha256).hexdigest()
    headers = {"x-hub-signature-256": f"sha256={digest}"}
    assert await post(hints, "/webhooks/git/github/unknown", PUSH, headers) == 401


async def test_an_unknown_provider_is_not_found() -> None:
    assert await post(Hints(), "/webhooks/git/nobody/shop", PUSH, signed(PUSH)) == 404


@pytest.mark.parametrize("length", [str(MAX_BODY + 1), "9" * 30, "-1", "x"])
async def test_a_declared_size_beyond_the_limit_is_refused_before_reading(length: str) -> None:
    assert await post(Hints(), "/webhooks/git/github/shop", PUSH, length=length) == 413


async def test_a_body_beyond_the_limit_is_refused_whatever_it_declares() -> None:
    body = b"x" * (MAX_BODY + 1)
    assert await post(Hints(), "/webhooks/git/github/shop", body, length="5") == 413


async def test_a_genuine_hook_that_is_no_push_still_wakes() -> None:
    """A ping, or a form we do not know: the hint costs one request."""
    hints = Hints()
    body = b"payload=%7B%7D"
    assert await post(hints, "/webhooks/git/github/shop", body, signed(body)) == 202
    assert hints.given == [("shop", {})]
