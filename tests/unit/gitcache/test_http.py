"""The webhook endpoint."""

import asyncio
import hashlib
import hmac
import json
import tracemalloc
from collections.abc import Collection, Mapping
from urllib.parse import urlencode

import pytest
from starlette.applications import Starlette
from starlette.types import Message

from core.errors import Unavailable
from core.identity import RepositoryId
from gitcache.webhooks import MAX_BODY, SECRET_SECONDS, Webhooks
from tests.fakes.clock import FakeClock, settle

SECRET = "correct horse"
SHA = "a" * 40


class Hints:
    """Remembers the hints it was given."""

    def __init__(self) -> None:
        self.given: list[tuple[str, Mapping[str, str] | None]] = []

    async def request_poll(
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
    """The status that the endpoint answers."""
    return await send_to(Webhooks(hints, secret_of, FakeClock()), path, body, headers, length)


async def send_to(
    hooks: Webhooks,
    path: str,
    body: bytes,
    headers: Mapping[str, str] | None = None,
    length: str | None = None,
) -> int:
    """The status that an endpoint answers; what it set going is done when this returns."""
    app = Starlette(routes=[hooks.route])
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
    await asyncio.sleep(0)
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


async def test_the_form_that_github_sends_by_default_is_read() -> None:
    hints = Hints()
    body = urlencode({"payload": PUSH.decode()}).encode()
    assert await post(hints, "/webhooks/git/github/shop", body, signed(body)) == 202
    assert hints.given == [("shop", {"refs/heads/main": SHA})]


async def test_a_deleted_branch_wakes_without_a_commit_to_wait_for() -> None:
    hints = Hints()
    body = json.dumps({"ref": "refs/heads/old", "after": "0" * 40, "deleted": True}).encode()
    assert await post(hints, "/webhooks/git/github/shop", body, signed(body)) == 202
    assert hints.given == [("shop", {})]


async def test_hooks_that_come_together_are_one_hint() -> None:
    hints = Hints()
    hooks = Webhooks(hints, secret_of, FakeClock())
    pushes = [
        json.dumps({"ref": f"refs/heads/b{number}", "after": SHA}).encode() for number in range(50)
    ]
    sent = [send_to(hooks, "/webhooks/git/github/shop", one, signed(one)) for one in pushes]
    assert set(await asyncio.gather(*sent)) == {202}
    assert len(hints.given) < 50
    merged = {ref for _, refs in hints.given for ref in refs or {}}
    assert merged == {f"refs/heads/b{number}" for number in range(50)}


async def test_a_replay_is_only_another_hint() -> None:
    hints = Hints()
    hooks = Webhooks(hints, secret_of, FakeClock())
    for _ in range(3):
        assert await send_to(hooks, "/webhooks/git/github/shop", PUSH, signed(PUSH)) == 202
    assert hints.given == [("shop", {"refs/heads/main": SHA})] * 3


async def test_a_hint_that_cannot_be_passed_on_is_answered_and_tried_again() -> None:
    class Away(Hints):
        async def request_poll(
            self, repository_id: RepositoryId, announced: Mapping[str, str] | None = None
        ) -> None:
            await super().request_poll(repository_id, announced)
            if len(self.given) == 1:
                raise Unavailable("away")

    hints, clock = Away(), FakeClock()
    hooks = Webhooks(hints, secret_of, clock)
    assert await send_to(hooks, "/webhooks/git/github/shop", PUSH, signed(PUSH)) == 202
    await clock.advance(1)
    assert hints.given == [("shop", {"refs/heads/main": SHA})] * 2
    await hooks.tasks.stop()


async def test_a_hint_that_can_never_be_passed_on_is_given_up() -> None:
    class Gone(Hints):
        async def request_poll(
            self, repository_id: RepositoryId, announced: Mapping[str, str] | None = None
        ) -> None:
            await super().request_poll(repository_id, announced)
            raise Unavailable("gone")

    hints, clock = Gone(), FakeClock()
    hooks = Webhooks(hints, secret_of, clock)
    assert await send_to(hooks, "/webhooks/git/github/shop", PUSH, signed(PUSH)) == 202
    attempts = []
    for seconds in (0, 0.4, 0.2, 2, 8, 3600):
        await clock.advance(seconds)
        attempts.append(len(hints.given))
    assert attempts == [1, 1, 2, 3, 4, 4]


async def test_a_repository_that_does_not_exist_is_looked_up_once() -> None:
    asked: list[str] = []

    async def counted(repository_id: str) -> str | None:
        asked.append(repository_id)
        return None

    hooks = Webhooks(Hints(), counted, FakeClock())
    for _ in range(3):
        assert await send_to(hooks, "/webhooks/git/github/gone", PUSH, signed(PUSH)) == 401
    assert asked == ["gone"]


async def test_senders_of_unfinished_bodies_do_not_fill_the_memory() -> None:
    """At most 64 MiB wait for their signature; others come back later."""
    hooks, end = Webhooks(Hints(), secret_of, FakeClock()), asyncio.Event()
    path, big = "/webhooks/git/github/shop", b"x" * (4 << 20)
    scope = {"type": "http", "method": "POST", "path": path, "query_string": b"", "headers": []}

    async def send_slowly() -> int:
        chunks, sent = [big], []

        async def receive() -> Message:
            if chunks:
                return {"type": "http.request", "body": chunks.pop(), "more_body": True}
            await end.wait()
            return {"type": "http.disconnect"}

        async def send(message: Message) -> None:
            sent.append(message)

        await Starlette(routes=[hooks.route])(scope, receive, send)
        return sent[0]["status"]

    slow = [asyncio.ensure_future(send_slowly()) for _ in range(16)]
    await settle(50)
    assert await send_to(hooks, path, PUSH, signed(PUSH)) == 503
    end.set()
    assert 503 not in await asyncio.gather(*slow)
    assert await send_to(hooks, path, PUSH, signed(PUSH)) == 202


async def test_ten_thousand_forgeries_ask_the_store_once_and_say_little(
    capsys: pytest.CaptureFixture[str],
) -> None:
    asked: list[str] = []

    async def counted(repository_id: str) -> str | None:
        asked.append(repository_id)
        return await secret_of(repository_id)

    clock = FakeClock()
    hooks = Webhooks(Hints(), counted, clock)
    forged = [asyncio.ensure_future(forge(hooks)) for _ in range(10_000)]
    while not all(one.done() for one in forged):
        await clock.advance(1)
    assert {one.result() for one in forged} == {401}
    # What is known of a secret holds for some seconds.
    assert asked == ["shop"]
    assert capsys.readouterr().out.count("webhook refused") <= 1


async def test_forgeries_are_answered_slowly_and_genuine_hooks_at_once() -> None:
    """Also behind a proxy, where all come from one address."""
    hints, clock = Hints(), FakeClock()
    hooks = Webhooks(hints, secret_of, clock)
    forged = [asyncio.ensure_future(forge(hooks)) for _ in range(500)]
    await clock.advance(1)
    answered = sum(one.done() for one in forged)
    assert 50 <= answered <= 150
    assert await send_to(hooks, "/webhooks/git/github/shop", PUSH, signed(PUSH)) == 202
    assert len(hints.given) == 1
    await clock.advance(6)
    assert [one.result() for one in forged] == [401] * 500


async def test_forgeries_without_number_do_not_pile_up() -> None:
    clock = FakeClock()
    hooks = Webhooks(Hints(), secret_of, clock)
    forged = [asyncio.ensure_future(forge(hooks)) for _ in range(6000)]
    await settle(200)
    assert sum(not one.done() for one in forged) == clock.sleepers == 4096
    await clock.advance(6)
    assert {one.result() for one in forged} == {401}


async def test_a_forgery_that_waits_holds_nothing_of_its_body() -> None:
    clock, body = FakeClock(), b"x" * (1 << 20)
    hooks = Webhooks(Hints(), secret_of, clock)
    tracemalloc.start()
    try:
        forged = [asyncio.ensure_future(forge(hooks, body)) for _ in range(150)]
        await settle(50)
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert clock.sleepers > 90 and held < 20 << 20
    await clock.advance(6)
    assert {one.result() for one in forged} == {401}


async def forge(hooks: Webhooks, body: bytes = b"{}") -> int:
    """The status that a wrong signature is answered with."""
    wrong = {"x-hub-signature-256": "sha256=00"}
    return await send_to(hooks, "/webhooks/git/github/shop", body, wrong)


async def test_ids_that_are_made_up_ask_the_store_a_few_at_once() -> None:
    asking = most = 0

    async def slowly(repository_id: str) -> None:
        nonlocal asking, most
        asking += 1
        most = max(most, asking)
        await asyncio.sleep(0)
        asking -= 1

    hooks = Webhooks(Hints(), slowly, FakeClock())
    paths = [f"/webhooks/git/github/{number}" for number in range(40)]
    answers = await asyncio.gather(*(send_to(hooks, path, PUSH) for path in paths))
    assert set(answers) == {401} and most <= 4


async def test_a_body_that_never_ends_is_given_up() -> None:
    """A slow sender holds a slot for some seconds only."""
    hooks = Webhooks(Hints(), secret_of, FakeClock(), body_seconds=0.01)
    app = Starlette(routes=[hooks.route])
    path = "/webhooks/git/github/shop"
    scope = {"type": "http", "method": "POST", "path": path, "query_string": b"", "headers": []}
    sent: list[Message] = []

    async def receive() -> Message:
        await asyncio.sleep(0.002)
        return {"type": "http.request", "body": b"x", "more_body": True}

    async def send(message: Message) -> None:
        sent.append(message)

    await app(scope, receive, send)
    assert sent[0]["status"] == 408


async def test_a_new_secret_counts_after_some_seconds() -> None:
    secrets, clock = {"shop": "old"}, FakeClock()

    async def current(repository_id: str) -> str | None:
        return secrets[repository_id]

    hooks = Webhooks(Hints(), current, clock)
    assert await send_to(hooks, "/webhooks/git/github/shop", PUSH, signed(PUSH)) == 401
    secrets["shop"] = SECRET
    await clock.advance(SECRET_SECONDS)
    assert await send_to(hooks, "/webhooks/git/github/shop", PUSH, signed(PUSH)) == 202


async def test_the_account_that_pushed_is_recorded_once_the_signature_is_verified() -> None:
    pushes: list[tuple[object, ...]] = []

    async def record(repository_id: str, name: str, email: str, commits: Collection[str]) -> None:
        pushes.append((repository_id, name, email, *commits))
        if len(pushes) > 1:
            raise Unavailable("the store does not answer")

    hooks = Webhooks(Hints(), secret_of, FakeClock(), record_push=record)
    push = {"ref": "refs/heads/main", "after": SHA, "sender": {"login": "ada"}}
    body = json.dumps(push | {"pusher": {"email": "ada@example.org"}}).encode()
    forged = {"x-hub-signature-256": "sha256=" + "0" * 64}
    genuine = {
        "x-hub-signature-256": "sha256="
        + hmac.new(SECRET.encode(), body, hashlib.sha256).hexdigest()
    }
    assert await send_to(hooks, "/webhooks/git/github/shop", body, forged) == 401
    assert not pushes
    assert await send_to(hooks, "/webhooks/git/github/shop", body, genuine) == 202
    assert pushes == [("shop", "ada", "ada@example.org", SHA)]
    assert await send_to(hooks, "/webhooks/git/github/shop", body, genuine) == 503


@pytest.mark.parametrize(
    "push",
    [
        {"ref": "refs/heads/gone", "after": "0" * 40, "sender": {"login": "ada"}},
        {"ref": "refs/heads/main", "after": SHA},
        {"zen": "ping", "sender": {"login": "ada"}},
    ],
)
async def test_a_hook_without_an_account_or_commits_records_nothing(push: dict[str, str]) -> None:
    pushes: list[str] = []

    async def record(repository_id: str, name: str, email: str, commits: Collection[str]) -> None:
        pushes.append(repository_id)

    hooks = Webhooks(Hints(), secret_of, FakeClock(), record_push=record)
    body = json.dumps(push).encode()
    assert await send_to(hooks, "/webhooks/git/github/shop", body, signed(body)) == 202
    assert pushes == []
