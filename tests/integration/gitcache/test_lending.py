"""Lent credentials of a repository: a token for it alone, or nothing at all."""

from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import orjson
import pytest
from aiohttp import web

from core.spec.source import GitCredentials
from tests.fakes.clock import FakeClock
from tests.integration.gitcache.stand import spec
from tests.integration.gitcache.test_signing_in import APP_PEM, MAIN, Front, Sides, use
from towline.demo.git_server import GitServer


class Asked(Front):
    """Keeps what was asked for with each token."""

    def __init__(self, git_server: GitServer, clock: FakeClock) -> None:
        super().__init__(git_server, clock)
        self.scopes: list[object] = []

    async def answer(self, request: web.Request) -> web.StreamResponse:
        if request.path.endswith("/access_tokens"):
            body = await request.read()
            self.scopes.append(orjson.loads(body) if body else None)
        return await super().answer(request)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
async def front(git_server: GitServer, clock: FakeClock) -> AsyncIterator[Asked]:
    front = Asked(git_server, clock)
    async for _ in front.run():
        yield front


@pytest.fixture
async def sides(tmp_path: Path) -> AsyncIterator[Sides]:
    sides = Sides(tmp_path / "home")
    yield sides
    await sides.close()


async def test_an_app_lends_a_token_for_one_repository(
    git_server: GitServer, front: Asked, sides: Sides, clock: FakeClock
) -> None:
    """It reads that one, is asked for once an hour, and goes without the App's own key."""
    sha = git_server.create_repository("shop").commit({"a": "1"})
    mirror = await sides.make(clock)
    app = GitCredentials(app_id="42", installation_id="7", private_key=APP_PEM)
    follow = spec(f"{front.url}/shop.git", MAIN, credentials=app)
    lent = await mirror.routes.issue_read_token(follow)
    assert lent == await mirror.routes.issue_read_token(follow)
    assert lent is not None and lent.private_key is lent.app_id is None
    assert front.scopes == [{"repositories": ["shop"], "permissions": {"contents": "read"}}]
    await use(mirror, spec(f"{front.url}/shop.git", MAIN, credentials=lent), sha)
    await clock.advance(timedelta(minutes=55).total_seconds())
    assert await mirror.routes.issue_read_token(follow) != lent


@pytest.mark.parametrize(
    "credentials",
    [None, GitCredentials(username="reader", password="pa55"), GitCredentials(private_key="key")],
    ids=["public", "password", "key"],
)
async def test_long_lived_credentials_are_not_lent(
    sides: Sides, credentials: GitCredentials | None
) -> None:
    """An agent that needs more has its own."""
    mirror = await sides.make()
    follow = spec("https://git.example.org/shop.git", MAIN, credentials=credentials)
    assert await mirror.routes.issue_read_token(follow) is None
