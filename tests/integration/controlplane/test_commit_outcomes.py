"""Commit statuses sent to GitHub and GitLab, by a small server that speaks as both."""

import re
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from controlplane.generators.model.service_set import Generator, PullRequestGenerator, ServiceSet
from controlplane.generators.ports import ServiceSetStore
from controlplane.notifications.model.sink_kind import CommitSink
from controlplane.notifications.operations.notifications import Notifications
from controlplane.notifications.operations.routing import NotificationRouting
from controlplane.notifications.operations.sending import NotificationSender
from controlplane.notifications.operations.sinks import SinkDraft, Sinks
from controlplane.notifications.ports import SinkStore
from controlplane.notifications.sinks.github import GithubSink
from controlplane.notifications.sinks.gitlab import GitlabSink
from controlplane.pipelines.ports import PipelineStore
from controlplane.platform.outbound.outbound import GuardedSender
from controlplane.platform.ports import PageQuery
from controlplane.repositories.model.repository import Repository
from controlplane.services.model.service import OwnerKind, Service
from controlplane.services.ports import ServiceStore
from core.errors import Invalid
from core.spec.status import Phase, Problem
from tests.integration.controlplane.conftest import World
from tests.integration.controlplane.test_pipelines import Line

SHA = "a" * 40
GITHUB = "/repos/example/fleet"
GITLAB = "/projects/example/fleet"


@dataclass
class Forge:
    """One repository with one request, numbered 7. `foreign`: comments that nobody may change."""

    url: str = ""
    statuses: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    comments: dict[int, str] = field(default_factory=dict)
    foreign: set[int] = field(default_factory=set)
    state: str = "open"
    requests: Any = None
    tokens: set[str] = field(default_factory=set)
    writes: int = 0

    async def answer(self, request: web.Request) -> web.Response:
        """Whatever is asked, in GitHub's paths or in GitLab's."""
        headers = request.headers
        self.tokens.add(headers.get("authorization") or headers.get("private-token") or "")
        body = await request.json() if request.can_read_body else {}
        for pattern, take in self._paths():
            if found := re.fullmatch(pattern, f"{request.method} {request.path}"):
                return take(found, body)
        return web.json_response({}, status=404)

    def _paths(self) -> list[tuple[str, Callable[[re.Match[str], Any], web.Response]]]:
        listed = rf"({GITHUB}/issues/7/comments|{GITLAB}/merge_requests/7/notes)"
        one = rf"({GITHUB}/issues/comments|{GITLAB}/merge_requests/7/notes)/(\d+)"
        of = rf"({GITHUB}/commits/{SHA}/pulls|{GITLAB}/repository/commits/{SHA}/merge_requests)"
        return [
            (r"POST (.*)/statuses/(\w+)", self._status),
            (rf"GET {of}", self._requests),
            (rf"GET {listed}", self._listed),
            (rf"POST {listed}", self._add),
            (rf"(?:PATCH|PUT) {one}", self._change),
        ]

    def _status(self, found: re.Match[str], body: Any) -> web.Response:
        self.statuses.append((found[2], body))
        return web.json_response({}, status=201)

    def _requests(self, _: re.Match[str], __: Any) -> web.Response:
        if self.requests is not None:
            return web.json_response(self.requests)
        both = {"number": 7, "iid": 7, "state": self.state}
        return web.json_response([both, {**both, "number": 8, "iid": 8, "state": "closed"}])

    def _listed(self, _: re.Match[str], __: Any) -> web.Response:
        return web.json_response([{"id": id, "body": text} for id, text in self.comments.items()])

    def _add(self, _: re.Match[str], body: Any) -> web.Response:
        self.writes += 1
        self.comments[100 + len(self.comments)] = body["body"]
        return web.json_response({}, status=201)

    def _change(self, found: re.Match[str], body: Any) -> web.Response:
        if int(found[2]) in self.foreign:
            return web.json_response({}, status=403)
        self.writes += 1
        self.comments[int(found[2])] = body["body"]
        return web.json_response({})


@pytest.fixture
async def forge() -> AsyncIterator[Forge]:
    one, app = Forge(), web.Application()
    app.router.add_route("*", "/{path:.*}", one.answer)
    async with TestServer(app, host="127.0.0.1") as server:
        one.url = f"http://127.0.0.1:{server.port}"
        yield one


@dataclass
class Stand:
    """A world whose outcomes are sent to the forge."""

    world: World
    forge: Forge
    outward: GuardedSender

    async def sink(self, repository: Repository, type: type[CommitSink] = GithubSink) -> None:
        draft = SinkDraft("s", type(repository.id, "t0ken", self.forge.url))
        await Sinks(self.world.deps).upsert(self.world.admin, draft)

    async def preview(self, type: type[CommitSink] = GithubSink) -> Service:
        """A service that a set has made of a request."""
        world = self.world
        repository = await world.repository("https://git.example.org/example/fleet.git")
        await self.sink(repository, type)
        service = await world.service(await world.cluster(), repository, "shop-7", ref="topic")
        now, generator = world.clock.now(), Generator(requests=PullRequestGenerator(repository.id))
        async with world.deps.store.write() as tx:
            await tx[ServiceSetStore].add(
                ServiceSet("set-1", "previews", now, now, generator=generator)
            )
            row = service.changed(owner_kind=OwnerKind.SET, owner_id="set-1", commit_sha=SHA)
            row = row.changed(digest="sha256:1", generation=1)
            await tx[ServiceStore].put(row)
        return row

    async def send(self) -> None:
        """Route and send whatever waits."""
        await NotificationRouting(self.world.deps).route()
        await NotificationSender(self.world.deps, self.outward).deliver()


@pytest.fixture
async def stand(world: World, forge: Forge) -> AsyncIterator[Stand]:
    outward = GuardedSender(("127.0.0.0/8",))
    yield Stand(world, forge, outward)
    await outward.close()


@pytest.mark.parametrize("type", [GithubSink, GitlabSink])
async def test_a_request_has_one_comment_on_its_preview(
    stand: Stand, type: type[CommitSink]
) -> None:
    """Written anew as the preview fares; what a cluster says can neither name nor link anybody."""
    service, forge = await stand.preview(type), stand.forge
    said = "no image | `@everyone` <img src=x>\nsecond line"
    await stand.world.report(service, Phase.FAILED, (Problem(said),))
    await stand.send()
    (text,) = forge.comments.values()
    row = text.splitlines()[-1]
    assert row.startswith("| `shop-7` | `dev` | failed: `no image")
    assert (row.count("|"), row.count("`"), "`@everyone" in row) == (5, 8, False)
    await stand.world.report(service, Phase.HEALTHY)
    await stand.send()
    (text,) = forge.comments.values()
    assert f"| healthy | `{SHA[:12]}` |" in text
    assert [body["state"] for _, body in forge.statuses][-1] == "success"
    assert all("t0ken" in one for one in forge.tokens)


async def test_a_comment_of_somebody_else_is_left(stand: Stand) -> None:
    """It begins as ours do, and the host lets nobody change it."""
    service, forge = await stand.preview(), stand.forge
    forge.comments[1], forge.foreign = "<!-- towline:set-1 --> mine", {1}
    await stand.world.report(service, Phase.HEALTHY)
    await stand.send()
    assert forge.comments[1].endswith("mine")
    assert len(forge.comments) == 2


async def test_nothing_is_said_twice_and_nothing_on_closed_requests(stand: Stand) -> None:
    service, forge = await stand.preview(), stand.forge
    for _ in range(2):
        await stand.world.report(service, Phase.HEALTHY)
        await stand.send()
    assert forge.writes == 1
    forge.state, forge.comments = "closed", {}
    await stand.world.report(service, Phase.FAILED, (Problem("no such image"),))
    await stand.send()
    assert (len(forge.comments), forge.statuses[-1][1]["state"]) == (0, "failure")


async def test_a_commit_has_a_status_for_each_environment(stand: Stand) -> None:
    """Of a pipeline: pending while a gate waits, success once its stage is well."""
    line = await Line.make(stand.world)
    repository = await stand.world.repositories.get(stand.world.admin, line.dev.repository_id or "")
    await stand.sink(repository)
    sha = await line.push("1")
    await stand.send()
    await line.approve()
    await stand.world.report(line.prod)
    await line.settle()
    await stand.send()
    of_prod = [
        body["state"]
        for commit, body in stand.forge.statuses
        if (commit, body["context"]) == (sha, "towline/shop/prod")
    ]
    assert (of_prod[0], of_prod[-1]) == ("pending", "success")


@pytest.mark.parametrize(
    "said", [[{"state": "open"}], {"a": 1}, ["open"], 7, [{"state": "open", "number": "x"}]]
)
async def test_a_host_that_talks_nonsense_hinders_no_other_delivery(
    stand: Stand, said: Any
) -> None:
    service, forge = await stand.preview(), stand.forge
    forge.requests = said
    await stand.world.report(service, Phase.HEALTHY)
    await stand.send()
    page = await Notifications(stand.world.deps).deliveries(stand.world.admin, PageQuery())
    assert {one.error for one in page.items} == {"cannot parse the response of the host"}


async def test_a_token_goes_to_the_host_that_it_was_given_for(stand: Stand) -> None:
    """Not to where somebody moves the repository, and not to another repository's."""
    service, world = await stand.preview(), stand.world
    async with world.deps.store.write() as tx:
        (sink,) = await tx[SinkStore].all()
        await tx[SinkStore].change(sink.id, host="git.example.org")
    await world.report(service, Phase.HEALTHY)
    await stand.send()
    assert not stand.forge.tokens
    other = await world.repository("https://git.example.net/example/fleet.git")
    draft = SinkDraft("t", GithubSink(service.repository_id or "", "t0ken"))
    sinks = Sinks(world.deps)
    await sinks.upsert(world.admin, draft)
    moved = replace(draft, settings=GithubSink(other.id))
    with pytest.raises(Invalid, match="set again"):
        await sinks.upsert(world.admin, moved)


async def test_a_pipeline_of_a_newer_program_holds_no_news_back(stand: Stand) -> None:
    line = await Line.make(stand.world)
    await line.push("1")
    id = (await line.view()).row.id
    async with stand.world.deps.store.write() as tx:
        await tx[PipelineStore].change(id, state={"version": 1_000, "state": {}})
    await stand.send()
    page = await Notifications(stand.world.deps).page(stand.world.admin, PageQuery())
    assert page.items
    assert all(one.routed_at for one in page.items)
