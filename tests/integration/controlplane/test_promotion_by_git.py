"""Stages promoted by git, with a real git server, the real git cache, and a host of requests."""

from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import aiohttp
import pytest
from aiohttp import web

from controlplane.authorization.roles import BuiltInRole as Role
from controlplane.pipelines.gates.kinds import ApprovalRule
from controlplane.pipelines.model.gate_rules import GateRule
from controlplane.pipelines.model.git_writes import FileChange, FileKind, GitWrite, WriteMode
from controlplane.pipelines.model.state import GitChangeState, Health, StageState
from controlplane.pipelines.operations.drafts import EdgeDraft, GateDraft, PipelineDraft, StageDraft
from controlplane.pipelines.operations.engine_runner import (
    CLEAN_UP,
    FOLLOW_REQUEST,
    PROMOTE,
    RENDER,
)
from controlplane.pipelines.operations.git_promotions import GitPromotions
from controlplane.pipelines.operations.views import PipelineView
from controlplane.platform.bus.memory import MemoryBus
from controlplane.platform.context import OperationContext
from controlplane.platform.jobs import Job
from controlplane.platform.ports import JobStore
from controlplane.platform.store.engine import make_engine
from controlplane.platform.store.transaction import SqlStore
from controlplane.repositories.operations import RepositoryChange
from controlplane.secrets.backends.envelope import EnvelopeSealer
from controlplane.services.model.ledger import LedgerEntry, LedgerStage
from controlplane.services.model.service import Service
from controlplane.services.ports import LedgerStore, ServiceStore
from controlplane.store.repositories import REPOSITORIES
from core.errors import Conflict, Forbidden, Unavailable
from core.identity import ServiceId
from core.runtime.clock import SystemClock
from core.spec.source import GitCredentials
from gitcache.compose import build_git_cache, build_write_service
from gitcache.settings import GitCacheSettings, PollSettings, RenderSettings
from gitcache.sync.cache import GitCache
from tests import migrated
from tests.fakes.clock import FakeClock
from tests.integration.controlplane.conftest import World, person
from tests.integration.gitcache.hostile import git
from tests.integration.serve.waiting import until
from towline.demo.git_server import GitServer, ServedRepository
from towline.serve.git_hosts import GitHostAdapter

DEPLOYMENT = """apiVersion: apps/v1
kind: Deployment
metadata: {{name: shop}}
spec:
  template:
    spec:
      containers:
        - {{name: main, image: "registry.test/shop:{tag}"}}
"""
IMAGE = FileChange(FileKind.IMAGE, "prod/d.yaml", image="registry.test/shop")


def manifest(tag: str) -> str:
    return DEPLOYMENT.format(tag=tag)


@dataclass
class Host:
    """A host like Gitea: its git is served elsewhere, its requests are merged by `merge`."""

    repository: ServedRepository
    origin: str
    requests: list[dict[str, Any]] = field(default_factory=list)
    url: str = ""
    away: bool = False

    async def answer(self, request: web.Request) -> web.StreamResponse:
        if not request.path.startswith("/api/"):
            return await self._git(request)
        if self.away:
            return web.Response(status=503)
        if request.method == "POST":
            given = await request.json()
            number = len(self.requests) + 1
            ends = {"head": {"ref": given["head"]}, "base": {"ref": given["base"]}}
            title = {"title": given["title"], "body": given["body"]}
            url = f"https://git.test/pulls/{number}"
            self.requests.append(
                {"number": number, "html_url": url, "state": "open", **ends, **title}
            )
            return web.json_response(self.requests[-1], status=201)
        last = request.path.rpartition("/")[2]
        if request.method == "PATCH":
            self.requests[int(last) - 1].update(await request.json())
        if last.isdecimal():
            return web.json_response(self.requests[int(last) - 1])
        return web.json_response([one for one in self.requests if one["state"] == "open"])

    def merge(self) -> str:
        """Merge the newest request, as a fast forward."""
        request = self.requests[-1]
        sha = self.repository.resolve(f"refs/heads/{request['head']['ref']}") or ""
        self.repository.point("refs/heads/main", sha)
        request.update(state="closed", merged=True, merged_at="2026-01-01", merge_commit_sha=sha)
        return sha

    async def _git(self, request: web.Request) -> web.StreamResponse:
        async with aiohttp.ClientSession(auto_decompress=False) as session:
            kept = ("content-type", "content-encoding", "git-protocol", "accept")
            headers = {k: v for k, v in request.headers.items() if k.lower() in kept}
            body = await request.read()
            url = f"{self.origin}{request.raw_path}"
            async with session.request(
                request.method, url, data=body or None, headers=headers
            ) as said:
                kind = {"Content-Type": said.headers.get("Content-Type", "text/plain")}
                return web.Response(status=said.status, body=await said.read(), headers=kind)


class Stand:
    """dev and prod as two folders of one repository."""

    def __init__(self, world: World, cache: GitCache, host: Host) -> None:
        self.world = world
        self.cache = cache
        self.host = host
        self.services: dict[str, Service] = {}

    async def fleet(self) -> None:
        change = RepositoryChange(
            f"{self.host.url}/shop.git", GitCredentials(username="git", password="t0ken")
        )
        repository = await self.world.repositories.create(self.world.admin, change)
        self.host.repository.commit({"dev/d.yaml": manifest("1"), "prod/d.yaml": manifest("0")})
        for name in ("dev", "prod"):
            cluster = await self.world.cluster(name)
            service = await self.world.service(cluster, repository, "shop", folder=name)
            self.services[name] = service
        await self.deliver()

    async def deliver(self) -> None:
        """Wait until the cache has what the server has, and give it to the services."""
        repository = self.services["dev"].repository_id
        assert repository is not None
        await self.cache.request_poll(repository)
        sha = self.host.repository.resolve("refs/heads/main")

        async def known() -> str:
            state = self.cache.state(repository)
            return state.commits["main"].sha if state and "main" in state.commits else ""

        await until(known, lambda seen: seen == sha, 60)
        await self.world.delivery.deliver(repository)

    async def save(self, write: GitWrite, *rules: GateRule) -> None:
        gates = [GateDraft(f"gate {number}", rule) for number, rule in enumerate(rules)]
        draft = PipelineDraft(
            "shop",
            [
                StageDraft("dev", [self.services["dev"].id]),
                StageDraft("prod", [self.services["prod"].id], git=write),
            ],
            [EdgeDraft("dev", "prod", gates)],
        )
        await self.world.pipelines.save(self.world.admin, draft)

    async def release(self, tag: str) -> None:
        """Dev runs another tag, and is well."""
        self.host.repository.commit({"dev/d.yaml": manifest(tag)})
        await self.deliver()
        await self.world.report(self.services["dev"])
        await self.settle()

    async def settle(self) -> None:
        """Do all that is due."""
        promotions, deps = self.world.promotions, self.world.deps
        work = {
            RENDER: promotions.render,
            PROMOTE: promotions.promote,
            FOLLOW_REQUEST: promotions.follow_request,
            CLEAN_UP: self.tidied,
        }
        await self.world.pipelines.engine.advance((await self.view()).row.id)
        for _ in range(20):
            async with deps.store.write() as tx:
                jobs = await tx[JobStore].claim(work, "test", self.world.clock.now(), 100)
            for job in jobs:
                await work[job.kind](job)
            async with deps.store.write() as tx:
                for job in jobs:
                    await tx[JobStore].finish(job)
            if not jobs:
                return

    async def tidied(self, job: Job) -> None:
        """What a host that is away leaves undone would be tried again."""
        with suppress(Unavailable):
            await self.world.promotions.clean_up(job)

    async def clean_up(self) -> None:
        """Take back what is due to be, of pipelines that are gone too."""
        async with self.world.deps.store.write() as tx:
            jobs = await tx[JobStore].claim([CLEAN_UP], "test", self.world.clock.now(), 100)
        for job in jobs:
            await self.tidied(job)

    async def view(self) -> PipelineView:
        return await self.world.pipelines.get(self.world.admin, None, "shop")

    async def prod(self) -> StageState:
        view = await self.view()
        return view.state.stages[view.spec.stages[1].id]

    async def approve(self, *, settle: bool = True) -> None:
        """Say yes to what waits before prod."""
        view = await self.view()
        (edge,) = view.spec.edges
        release = view.state.candidates[edge.id].release
        rendered = (await self.prod()).rendered[release]
        digests = {ServiceId(id): one.digest for id, one in rendered.items()}
        admin = person(Role.ADMIN, "bob")
        await self.world.decisions.approve(admin, edge.gates[0].id, digests)
        if settle:
            await self.settle()

    async def repository_changed(self) -> None:
        """The repository has moved, a minute later."""
        await self.world.clock.advance(60)
        await self.world.promotions.hint_merges(self.services["prod"].repository_id or "")
        await self.settle()

    async def given(self) -> Service:
        return await self.world.get(self.services["prod"])

    async def promoted(self) -> list[LedgerEntry]:
        async with self.world.deps.store.read() as tx:
            id = self.services["prod"].id
            return await tx[LedgerStore].select(service_id=[id], stage=LedgerStage.PROMOTED)

    def branches(self) -> set[str]:
        """Those of the repository, but for that of the services."""
        found = git(self.host.repository.path, "for-each-ref", "--format=%(refname:short)")
        return set(found.split()) - {"main"}

    def commits(self) -> list[str]:
        """Subjects of the commits of main, the newest first."""
        return git(self.host.repository.path, "log", "--format=%s", "main").split("\n")


@pytest.fixture
async def cache(tmp_path: Path) -> AsyncIterator[GitCache]:
    settings = GitCacheSettings(
        data_dir=tmp_path / "cache",
        poll=PollSettings(seconds=3600),
        render=RenderSettings(workers=1),
    )
    one = build_git_cache(settings, SystemClock())
    await one.start()
    yield one
    await one.stop()


@pytest.fixture
async def stand(tmp_path: Path, git_server: GitServer, cache: GitCache) -> AsyncIterator[Stand]:
    repository = git_server.create_repository("shop")
    host = Host(repository, repository.url.removesuffix("/shop.git"))
    app = web.Application(client_max_size=64 << 20)
    app.router.add_route("*", "/{path:.*}", host.answer)
    running = web.AppRunner(app)
    await running.setup()
    await web.TCPSite(running, "127.0.0.1", 0).start()
    host.url = f"http://127.0.0.1:{running.addresses[0][1]}"
    side = build_write_service(GitCacheSettings(data_dir=tmp_path), SystemClock(), None)
    store = SqlStore(make_engine(migrated.put_sqlite(tmp_path)), REPOSITORIES)
    clock, sealer = FakeClock(), EnvelopeSealer(b"k" * 32)
    hosts = GitHostAdapter(side, cache.specs)
    deps = OperationContext(store, MemoryBus(), clock, cache, sealer, hosts)
    one = Stand(World(deps, cast(Any, cache), clock), cache, host)
    await one.fleet()
    yield one
    await side.close()
    await store.close()
    await running.cleanup()


async def test_a_commit_carries_the_image_of_the_release_into_the_stages_folder(
    stand: Stand,
) -> None:
    """The approved digest is that of a commit tried out before; ledger and stage name it."""
    await stand.save(GitWrite((IMAGE,)), ApprovalRule())
    await stand.release("2")
    assert stand.commits()[0] == "Change", "nothing is on the branch before the gate"
    await stand.approve()
    sha = stand.host.repository.resolve("refs/heads/main")
    given, held = await stand.given(), await stand.prod()
    assert (given.desired.pinned_sha, given.desired.commit_sha) == (sha, sha)
    assert held.change is not None and held.change.commit == sha
    assert held.change.url == f"{stand.host.url}/shop/commit/{sha}"
    assert stand.commits()[0].startswith("Promote shop r")
    (entry,) = await stand.promoted()
    assert (entry.sha, entry.detail["commit"], entry.detail["branch"]) == (sha, sha, "main")
    await stand.world.report(given)
    await stand.settle()
    assert (await stand.prod()).health is Health.HEALTHY


async def test_a_commit_that_is_there_already_is_found(stand: Stand) -> None:
    """The worker dies after the push: the job is done again, and there is one commit."""
    await stand.save(GitWrite((IMAGE,)), ApprovalRule())
    await stand.release("3")
    view = await stand.view()
    held = view.state.candidates[view.spec.edges[0].id]
    promotion = GitPromotions(stand.world.deps)
    before = len(stand.commits())
    for _ in range(2):
        await promotion.write_release(
            view, view.spec.stages[1], [await stand.given()], held.release
        )
    await stand.approve()
    assert len(stand.commits()) == before + 1
    assert (await stand.prod()).change is not None


async def test_a_request_is_opened_and_followed_until_it_is_merged(stand: Stand) -> None:
    await stand.save(GitWrite((IMAGE,), WriteMode.REQUEST, provider="gitea"))
    await stand.release("4")
    (request,) = stand.host.requests
    assert request["title"].startswith("Promote shop r") and request["base"]["ref"] == "main"
    held = await stand.prod()
    assert held.change is not None and held.change.state is GitChangeState.OPEN
    assert "https://git.test/pulls/1" in held.rollout_reason
    await stand.repository_changed()
    assert not await stand.promoted()
    sha = stand.host.merge()
    await stand.repository_changed()
    assert (await stand.given()).desired.pinned_sha == sha
    (entry,) = await stand.promoted()
    assert (entry.detail["request"], entry.detail["url"]) == (1, "https://git.test/pulls/1")


async def test_a_closed_request_fails_the_stage_and_a_retry_opens_another(stand: Stand) -> None:
    await stand.save(GitWrite((IMAGE,), WriteMode.REQUEST, provider="gitea"))
    await stand.release("5")
    stand.host.requests[0]["state"] = "closed"
    await stand.repository_changed()
    held = await stand.prod()
    assert held.health is Health.FAILED and "#1 was closed without a merge" in held.reason
    view = await stand.view()
    await stand.world.decisions.retry(stand.world.admin, view.row.id, "prod")
    await stand.settle()
    assert len(stand.host.requests) == 2
    sha = stand.host.merge()
    await stand.repository_changed()
    assert (await stand.given()).desired.pinned_sha == sha


async def test_a_merge_is_seen_by_the_branch_while_the_hosts_interface_is_away(
    stand: Stand,
) -> None:
    await stand.save(GitWrite((IMAGE,), WriteMode.REQUEST, provider="gitea"))
    await stand.release("6")
    stand.host.away = True
    await stand.repository_changed()
    assert not await stand.promoted()
    sha = stand.host.merge()
    await stand.deliver()
    await stand.repository_changed()
    assert (await stand.given()).desired.pinned_sha == sha


async def test_changes_merged_meanwhile_need_a_new_approval(stand: Stand) -> None:
    """The release goes back to its gate with what it comes to now."""
    await stand.save(GitWrite((IMAGE,)), ApprovalRule())
    await stand.release("7")
    stand.host.repository.commit({"prod/more.yaml": manifest("9").replace("shop", "extra", 1)})
    await stand.deliver()
    await stand.approve()
    assert not await stand.promoted()
    view = await stand.view()
    assert "returned to its gates" in " ".join(one.text for one in view.state.history)
    await stand.approve()
    assert (await stand.given()).desired.pinned_sha == stand.host.repository.resolve(
        "refs/heads/main"
    )


async def test_a_folder_is_copied_unless_it_has_moved_on(stand: Stand) -> None:
    copy = GitWrite((FileChange(FileKind.FOLDER, "prod", source="dev"),))
    await stand.save(copy, ApprovalRule())
    await stand.release("8")
    await stand.approve()
    dev = await stand.world.get(stand.services["dev"])
    assert (await stand.given()).desired.digest == dev.desired.digest
    await stand.world.report(await stand.given())
    await stand.release("9")
    stand.host.repository.commit({"dev/d.yaml": manifest("10")})
    await stand.deliver()
    view = await stand.view()
    release = view.state.candidates[view.spec.edges[0].id].release
    with pytest.raises(Conflict, match="has changed since the release"):
        await GitPromotions(stand.world.deps).commit_preview(
            view, view.spec.stages[1], [await stand.given()], release
        )


async def test_git_stages_need_write_access_to_the_repository(
    stand: Stand,
) -> None:
    stand.world.admin = person(Role.VIEWER, "eve")
    with pytest.raises(Forbidden):
        await stand.save(GitWrite((IMAGE,)))


async def test_services_of_another_repository_are_not_written_to_by_nobodys_leave(
    stand: Stand,
) -> None:
    """They came into the stage after somebody who may change the first one had saved it."""
    await stand.save(GitWrite((IMAGE,)))
    other = await stand.world.repository("https://git.example.org/other.git")
    async with stand.world.deps.store.write() as tx:
        await tx[ServiceStore].change(stand.services["prod"].id, repository_id=other.id)
    await stand.release("2")
    (candidate,) = (await stand.view()).state.candidates.values()
    assert "must save it again" in candidate.render_error


async def test_nothing_is_tried_out_on_the_branch_of_the_services(stand: Stand) -> None:
    """There it would be before anybody has approved it."""
    await stand.save(GitWrite((IMAGE,), branch="main"), ApprovalRule())
    await stand.release("2")
    (candidate,) = (await stand.view()).state.candidates.values()
    assert "services' own branch" in candidate.render_error
    assert stand.commits()[0] == "Change"


async def test_an_aborted_release_is_not_committed(stand: Stand) -> None:
    """The job had waited for a server that was away."""
    await stand.save(GitWrite((IMAGE,)), ApprovalRule())
    await stand.release("2")
    await stand.approve(settle=False)
    view = await stand.view()
    await stand.world.decisions.abort(stand.world.admin, view.row.id, "prod")
    await stand.settle()
    assert stand.commits()[0] == "Change" and not await stand.promoted()


async def test_a_branch_goes_once_its_release_has_landed_or_is_superseded(stand: Stand) -> None:
    """And one that somebody else has committed to stays."""
    await stand.save(GitWrite((IMAGE,)), ApprovalRule())
    await stand.release("2")
    (first,) = stand.branches()
    await stand.release("3")
    (second,) = stand.branches()
    assert second != first
    await stand.approve()
    assert stand.branches() == set() and await stand.promoted()
    await stand.world.report(await stand.given())
    await stand.release("4")
    (third,) = stand.branches()
    stand.host.repository.commit({"more.txt": "1"}, branch=third)
    await stand.release("5")
    assert third in stand.branches() and len(stand.branches()) == 2


async def test_an_abandoned_request_is_closed_and_its_branch_deleted(stand: Stand) -> None:
    """Not by the abort, which may be taken back, but once another release enters the stage."""
    await stand.save(GitWrite((IMAGE,), WriteMode.REQUEST, provider="gitea"))
    await stand.release("2")
    view = await stand.view()
    await stand.world.decisions.abort(stand.world.admin, view.row.id, "prod")
    await stand.settle()
    assert stand.host.requests[0]["state"] == "open" and len(stand.branches()) == 1
    await stand.release("3")
    states = [one["state"] for one in stand.host.requests]
    assert states == ["closed", "open"]
    assert stand.branches() == {stand.host.requests[1]["head"]["ref"]}
    await stand.world.pipelines.delete(stand.world.admin, view.row.id)
    await stand.clean_up()
    assert stand.host.requests[1]["state"] == "closed" and stand.branches() == set()
