"""Listing the open requests of a repository from the three sorts of hosts: all, or none."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp import web

from core.errors import Invalid, NotFound, Unavailable
from core.runtime.clock import SystemClock
from core.spec.source import GitCredentials, RepositorySpec
from gitcache.compose import build_write_service
from gitcache.settings import GitCacheSettings
from gitcache.write.merge_requests import Provider
from gitcache.write.service import GitWriteService
from tests.integration.gitcache.stand import REPOSITORY, spec
from towline.serve.git_hosts import GitHostAdapter


class Host:
    """Lists requests in pages; fails on a page if the test asks for it."""

    def __init__(self) -> None:
        self.requests: list[dict[str, Any]] = []
        self.fails_on: int | None = None
        self.endless = False
        self.asked: list[str] = []
        self.url = ""

    async def answer(self, request: web.Request) -> web.Response:
        page = int(request.query["page"])
        self.asked.append(request.headers.get("Authorization", ""))
        if page == self.fails_on:
            return web.Response(status=502)
        if "gone" in request.path:
            return web.Response(status=404)
        start = 0 if self.endless else (page - 1) * 3
        return web.json_response(self.requests[start : start + 3])

    def add(self, provider: Provider, number: int, *, forked: bool = False) -> None:
        """One more, in the words of a host."""
        when = "2026-01-02T03:04:05Z"
        if provider is Provider.GITLAB:
            of = {"source_project_id": 2 if forked else 1, "target_project_id": 1}
            named = {"iid": number, "source_branch": f"b{number}", "target_branch": "main"}
            request = {**of, **named, "sha": "a" * 40, "labels": ["preview"]}
        else:
            repo = {"full_name": "team/shop"}
            head = {"ref": f"b{number}", "sha": "a" * 40, "repo": None if forked else repo}
            base = {"ref": "main", "repo": repo}
            request = {
                "number": number,
                "head": head,
                "base": base,
                "labels": [{"name": "preview"}],
            }
        self.requests.append({**request, "title": f"Change {number}", "updated_at": when})


@pytest.fixture
async def host() -> AsyncIterator[Host]:
    host = Host()
    app = web.Application()
    app.router.add_route("GET", "/{path:.*}", host.answer)
    running = web.AppRunner(app)
    await running.setup()
    await web.TCPSite(running, "127.0.0.1", 0).start()
    host.url = f"http://127.0.0.1:{running.addresses[0][1]}"
    yield host
    await running.cleanup()


@pytest.fixture
async def hosts(tmp_path) -> AsyncIterator[GitWriteService]:
    """As a process has it that does not follow."""
    one = build_write_service(GitCacheSettings(data_dir=tmp_path), SystemClock(), None)
    yield one
    await one.close()


def follow(host: Host, name: str = "shop") -> RepositorySpec:
    return spec(f"{host.url}/team/{name}.git", credentials=GitCredentials(password="t0ken"))


@pytest.mark.parametrize("provider", list(Provider))
async def test_all_pages_are_read_and_forks_are_marked(
    hosts: GitWriteService, host: Host, provider: Provider
) -> None:
    for number in range(1, 8):
        host.add(provider, number, forked=number == 4)
    found = await hosts.open_requests(follow(host), provider)
    assert [one.number for one in found] == list(range(1, 8))
    assert [one.number for one in found if one.forked] == [4]
    first = found[0]
    assert (first.branch, first.base, first.labels) == ("b1", "main", ("preview",))
    assert all("t0ken" in one for one in host.asked)


@pytest.mark.parametrize("page", [1, 2, 3])
async def test_a_page_that_is_missing_is_an_error_and_no_end(
    hosts: GitWriteService, host: Host, page: int
) -> None:
    """What is behind it would else be taken for merged, and its previews deleted."""
    for number in range(7):
        host.add(Provider.GITHUB, number + 1)
    host.fails_on = page
    with pytest.raises(Unavailable):
        await hosts.open_requests(follow(host), Provider.GITHUB)


async def test_malformed_or_endless_responses_are_errors(
    hosts: GitWriteService, host: Host
) -> None:
    host.requests.append({"number": 1})
    with pytest.raises(Unavailable, match="cannot parse"):
        await hosts.open_requests(follow(host), Provider.GITEA)
    host.requests.clear()
    host.add(Provider.GITEA, 1)
    host.endless = True
    with pytest.raises(Invalid, match="more than"):
        await hosts.open_requests(follow(host), Provider.GITEA)
    with pytest.raises(NotFound):
        await hosts.open_requests(follow(host, "gone"), Provider.GITEA)


async def test_public_repositories_are_asked_without_a_token(
    hosts: GitWriteService, host: Host
) -> None:
    host.add(Provider.GITHUB, 1)
    found = await hosts.open_requests(spec(f"{host.url}/team/shop.git"), Provider.GITHUB)
    assert len(found) == 1 and set(host.asked) == {""}


async def test_the_port_asks_for_followed_repositories_only(
    hosts: GitWriteService, host: Host
) -> None:
    host.add(Provider.GITHUB, 1)
    port = GitHostAdapter(hosts, lambda: [follow(host)])
    (found,) = await port.open_requests(REPOSITORY, "github")
    assert (found.number, found.branch) == (1, "b1")
    with pytest.raises(Invalid, match="GitHub, GitLab or Gitea"):
        await port.open_requests(REPOSITORY)
    with pytest.raises(Invalid, match="expected one of"):
        await port.open_requests(REPOSITORY, "sourceforge")
    with pytest.raises(Unavailable, match="not followed"):
        await GitHostAdapter(hosts, list).open_requests(REPOSITORY)
