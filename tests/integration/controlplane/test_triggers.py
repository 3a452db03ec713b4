"""Triggers that look for news: registries over real HTTP, webhooks, and the looks themselves."""

import base64
import hashlib
import hmac
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import orjson
import pytest
from starlette.applications import Starlette
from starlette.types import Message

from controlplane.authorization.roles import BuiltInRole as Role
from controlplane.pipelines.engine.codec import to_json
from controlplane.pipelines.engine.effects import WriteFinding
from controlplane.pipelines.gates.kinds import ExternalRule
from controlplane.pipelines.http import MAX_BYTES, WebhookRoutes
from controlplane.pipelines.model.git_writes import FileChange, FileKind, GitWrite
from controlplane.pipelines.model.records import PipelineTrigger
from controlplane.pipelines.model.state import FoundStatus, GitChangeState, TriggerState
from controlplane.pipelines.model.triggers import TriggerFinding, TriggerRule
from controlplane.pipelines.operations.drafts import (
    EdgeDraft,
    GateDraft,
    PipelineDraft,
    StageDraft,
    TriggerDraft,
)
from controlplane.pipelines.operations.engine_runner import WRITE
from controlplane.pipelines.operations.trigger_rows import TRIGGER
from controlplane.pipelines.operations.triggers import Triggers
from controlplane.pipelines.operations.views import PipelineView
from controlplane.pipelines.triggers.kinds import ChartRule, ImageRule, TagRule
from controlplane.pipelines.triggers.kinds.image import ImageTagPolicy
from controlplane.platform.jobs import MAX_ATTEMPTS, Job
from controlplane.platform.outbound.outbound import GuardedSender
from controlplane.platform.ports import JobStore
from controlplane.platform.webhook_signatures import signature
from controlplane.repositories.operations import RepositoryChange
from controlplane.repositories.registry import ImageRegistries
from controlplane.services.model.service import Service
from core.errors import Forbidden, Invalid, NotFound, Unavailable
from core.identity import RepositoryId
from core.outbound.oci import OciRegistryClient
from core.spec.edits import Edit, SetImage
from core.spec.source import GitCredentials
from tests.fakes.manifests import config_map
from tests.fakes.registry import FakeRegistry
from tests.integration.controlplane.conftest import World, person

SECRET = "s3cret-of-the-hook"
SIGNING = "whsec_" + base64.b64encode(b"s" * 32).decode()
THEN = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
async def registry() -> AsyncIterator[FakeRegistry]:
    async with FakeRegistry().running() as running:
        yield running


@pytest.fixture
async def outward() -> AsyncIterator[GuardedSender]:
    one = GuardedSender(("127.0.0.0/8",))
    yield one
    await one.close()


class Writes:
    """The port for what goes back to git, and for listing its tags."""

    def __init__(self) -> None:
        self.made: list[tuple[str, list[Edit]]] = []
        self.error: Exception | None = None
        self.names = ["v1.0.0", "v1.1.0", "v2.0.0"]

    async def commit(
        self, repository_id: RepositoryId, edits: list[Edit], *, branch: str, **_: str
    ) -> str:
        if self.error is not None:
            raise self.error
        self.made.append((branch, edits))
        return f"{len(self.made):040x}"

    async def tags(self, repository_id: RepositoryId) -> list[str]:
        return self.names


class Stand:
    """dev → prod with a trigger, and workers for it."""

    def __init__(self, world: World, outward: GuardedSender, registry: FakeRegistry) -> None:
        self.writes = Writes()
        deps = replace(world.deps, writer=self.writes)
        self.world = world
        self.registry = registry
        client = ImageRegistries(OciRegistryClient(outward, world.clock))
        self.triggers = Triggers(deps, world.pipelines, world.repositories, client, self.writes)
        self.services: list[Service] = []
        self.app = Starlette(
            routes=WebhookRoutes(self.triggers, world.decisions, world.clock).routes
        )

    async def post(
        self, path: str, body: bytes = b"x", headers: dict[str, str] | None = None
    ) -> tuple[int, str]:
        """Status and text of an answer."""
        path, _, query = path.partition("?")
        named = [(name.encode(), value.encode()) for name, value in (headers or {}).items()]
        scope = {"type": "http", "method": "POST", "path": path, "headers": named}
        sent: list[Message] = []

        async def receive() -> Message:
            return {"type": "http.request", "body": body, "more_body": False}

        async def send(message: Message) -> None:
            sent.append(message)

        await self.app({**scope, "query_string": query.encode()}, receive, send)
        return sent[0]["status"], sent[1].get("body", b"").decode()

    async def fleet(self) -> None:
        repository = await self.world.repository()
        for name in ("dev", "prod"):
            cluster = await self.world.cluster(name)
            self.services.append(await self.world.service(cluster, repository, folder=name))

    @property
    def image(self) -> str:
        return f"{self.registry.host}/shop"

    async def save(self, rule: TriggerRule, *gates: GateDraft, writes: bool = True) -> PipelineView:
        change = FileChange(FileKind.IMAGE, "dev/d.yaml", image="shop", value="${tag}")
        draft = TriggerDraft("new", rule, GitWrite((change,)) if writes else None, SECRET)
        dev, prod = self.services
        stages = [StageDraft("dev", [dev.id]), StageDraft("prod", [prod.id])]
        edges = [EdgeDraft("dev", "prod", gates)]
        pipeline = PipelineDraft("shop", stages, edges, triggers=[draft])
        return await self.world.pipelines.save(self.world.admin, pipeline)

    async def look(self) -> int:
        """Do what is due; how many looks that were."""
        work, looks = {TRIGGER: self.triggers.poll, WRITE: self.triggers.write}, 0
        while True:
            async with self.world.deps.store.write() as tx:
                jobs = await tx[JobStore].claim(work, "test", self.world.clock.now(), 10)
            for job in jobs:
                looks += job.kind == TRIGGER
                await work[job.kind](job)
                async with self.world.deps.store.write() as tx:
                    await tx[JobStore].finish(job)
            if not jobs:
                return looks

    async def view(self) -> PipelineView:
        return await self.world.pipelines.get(self.world.admin, None, "shop")

    async def state(self) -> TriggerState:
        view = await self.view()
        return view.state.triggers.get(view.spec.triggers[0].id, TriggerState())

    async def finding(self) -> TriggerFinding:
        finding = (await self.state()).finding
        assert finding is not None
        return finding

    async def row(self) -> PipelineTrigger:
        (row,) = (await self.triggers.rows((await self.view()).row.id)).values()
        return row


@pytest.fixture
async def stand(world: World, outward: GuardedSender, registry: FakeRegistry) -> Stand:
    one = Stand(world, outward, registry)
    await one.fleet()
    return one


async def test_a_new_tag_in_the_range_is_committed_once(stand: Stand) -> None:
    for tag in ("1.0.0", "1.1.0", "2.0.0", "latest"):
        stand.registry.push("shop", tag)
    await stand.save(ImageRule(stand.image, range="^1"))
    assert await stand.look() == 1
    state = await stand.state()
    assert (state.finding, state.status) == (TriggerFinding("1.1.0"), FoundStatus.DONE)
    assert state.change is not None and state.change.state is GitChangeState.LANDED
    assert stand.writes.made == [("main", [SetImage("dev/d.yaml", "shop", "1.1.0")])]
    await stand.world.clock.advance(61)
    assert await stand.look() == 1
    assert len(stand.writes.made) == 1, "the same tag found again is nothing new"
    stand.registry.push("shop", "1.2.0")
    await stand.world.clock.advance(900)
    await stand.look()
    assert [edits[0].tag for _, edits in stand.writes.made] == ["1.1.0", "1.2.0"]


@pytest.mark.parametrize(
    ("policy", "more", "expected"),
    [
        (ImageTagPolicy.REGEX, {"pattern": r"main-(\d+)"}, "main-10"),
        (ImageTagPolicy.NEWEST, {"pattern": r"main-.*"}, "main-9"),
        (ImageTagPolicy.DIGEST, {"tag": "main-10"}, "main-10"),
    ],
)
async def test_each_policy_finds_its_tag(
    stand: Stand, policy: ImageTagPolicy, more: dict[str, Any], expected: str
) -> None:
    for number, tag in enumerate(("dev", "main-10", "main-9")):
        stand.registry.push("shop", tag, THEN + timedelta(number))
    await stand.save(ImageRule(stand.image, policy, **more))
    await stand.look()
    finding = await stand.finding()
    assert finding.value == expected
    assert bool(finding.digest) == (policy is ImageTagPolicy.DIGEST)


async def test_a_tag_that_moves_is_found_by_its_digest(stand: Stand) -> None:
    stand.registry.push("shop", "latest", THEN)
    await stand.save(ImageRule(stand.image, ImageTagPolicy.DIGEST))
    await stand.look()
    digest = stand.registry.push("shop", "latest", THEN + timedelta(1))
    await stand.world.clock.advance(900)
    await stand.look()
    assert ((await stand.finding()).digest, len(stand.writes.made)) == (digest, 2)


async def test_a_new_version_of_a_chart_is_found(stand: Stand) -> None:
    stand.registry.push("charts/shop", "1.4.0_build")
    await stand.save(ChartRule(f"oci://{stand.registry.host}/charts/shop"))
    await stand.look()
    assert (await stand.finding()).value == "1.4.0_build"


async def test_a_new_tag_of_git_is_what_the_first_stage_follows(stand: Stand) -> None:
    await stand.save(TagRule("^1"), writes=False)
    await stand.look()
    assert (await stand.world.get(stand.services[0])).spec.ref == "v1.1.0"
    assert (await stand.world.get(stand.services[1])).spec.ref == "main"
    assert (await stand.state()).reason == "services follow v1.1.0"


def gap(row: PipelineTrigger) -> timedelta:
    """Time from one check to the next."""
    assert row.next_at is not None and row.checked_at is not None
    return row.next_at - row.checked_at


async def test_looks_become_rarer_without_news_and_heed_the_registry(stand: Stand) -> None:
    stand.registry.push("shop", "1.0.0")
    await stand.save(ImageRule(stand.image))
    gaps = []
    for _ in range(6):
        await stand.look()
        row = await stand.row()
        gaps.append(gap(row).seconds)
        await stand.world.clock.advance(gaps[-1])
    assert gaps == [60, 120, 240, 480, 900, 900]
    stand.registry.refuse, stand.registry.retry_after = 1, "3600"
    await stand.look()
    row = await stand.row()
    assert "429" in row.error and gap(row) == timedelta(hours=1)
    await stand.triggers.schedule_poll_soon(row.id)
    await stand.world.clock.advance(3599)
    assert await stand.look() == 0, "a hint does not hasten what the registry wants to be late"
    await stand.world.clock.advance(1)
    await stand.look()
    assert (await stand.row()).error == ""


async def test_a_failed_trigger_commit_is_retried_on_the_next_check(stand: Stand) -> None:
    stand.registry.push("shop", "1.0.0")
    stand.writes.error = Forbidden("the server declines the commit: protected branch")
    await stand.save(ImageRule(stand.image))
    await stand.look()
    state = await stand.state()
    assert state.status is FoundStatus.FAILED and "protected branch" in state.reason
    stand.writes.error = None
    await stand.world.clock.advance(900)
    await stand.look()
    assert (await stand.state()).status is FoundStatus.DONE
    assert len(stand.writes.made) == 1


async def test_a_server_that_stays_away_is_no_reason_to_wait_for_ever(stand: Stand) -> None:
    """The job is done again as often as any; then the next look begins anew."""
    stand.registry.push("shop", "1.0.0")
    stand.writes.error = Unavailable("git.example.org does not answer")
    await stand.save(ImageRule(stand.image))
    with pytest.raises(Unavailable):
        await stand.look()
    view = await stand.view()
    effect = WriteFinding("key", view.spec.triggers[0].id, await stand.finding())
    payload = {"pipeline": view.row.id, "effect": to_json(effect)}
    last = Job("j", WRITE, "key", stand.world.clock.now(), payload, attempts=MAX_ATTEMPTS)
    await stand.triggers.write(last)
    state = await stand.state()
    assert state.status is FoundStatus.FAILED and "does not answer" in state.reason


async def test_a_private_registry_is_asked_with_the_credentials_of_its_repository(
    stand: Stand,
) -> None:
    """It is connected like any repository; that of the image's project counts."""
    stand.registry.user, stand.registry.password = "ann", "canary-18cd-registry"
    stand.registry.push("shop", "1.0.0")
    await stand.save(ImageRule(stand.image))
    await stand.look()
    assert "rejected the credentials" in (await stand.row()).error
    credentials = GitCredentials(username="ann", password="canary-18cd-registry")
    change = RepositoryChange(f"http://{stand.image}", credentials)
    await stand.world.repositories.create(stand.world.admin, change)
    await stand.world.clock.advance(900)
    await stand.look()
    assert (await stand.finding()).value == "1.0.0"


async def test_a_signed_hint_has_a_trigger_look_at_once(stand: Stand) -> None:
    """Its body is never read; two hints within seconds are one look."""
    stand.registry.push("shop", "1.0.0")
    view = await stand.save(ImageRule(stand.image))
    id = view.spec.triggers[0].id
    await stand.look()
    await stand.world.clock.advance(10)
    stand.registry.push("shop", "1.0.1")
    body = b"{ not even JSON"
    mark = "sha256=" + hmac.new(SECRET.encode(), body, hashlib.sha256).hexdigest()
    proofs = {
        "github": ({"x-hub-signature-256": mark}, ""),
        "plain": ({"x-hub-signature-256": mark}, ""),
        "harbor": ({"authorization": SECRET}, ""),
        "dockerhub": ({}, f"?token={SECRET}"),
    }
    for provider, (headers, query) in proofs.items():
        url = f"/webhooks/registry/{provider}/{id}{query}"
        assert (await stand.post(url, body, headers))[0] == 202
    assert await stand.look() == 1
    assert (await stand.finding()).value == "1.0.1"


@pytest.mark.parametrize("provider", ["github", "harbor", "dockerhub", "plain"])
async def test_hints_of_strangers_all_read_alike(stand: Stand, provider: str) -> None:
    view = await stand.save(ImageRule(stand.image))
    await stand.look()
    for id in (view.spec.triggers[0].id, "absent"):
        url = f"/webhooks/registry/{provider}/{id}?token=wrong"
        headers = {"authorization": "wrong", "x-hub-signature-256": "sha256=0"}
        assert await stand.post(url, b"x", headers) == (401, "signature refused")
    url = f"/webhooks/registry/{provider}/x"
    assert (await stand.post(url, b"x" * (MAX_BYTES + 1)))[0] == 413
    assert (await stand.post("/webhooks/registry/svn/x"))[0] == 404
    assert await stand.look() == 0


async def test_a_signed_call_of_a_ci_answers_at_its_gate(stand: Stand) -> None:
    """Signature, then time, then what it says; an answer to another release is not taken."""
    rule = ExternalRule("ci@example.org", sealed=SIGNING)
    view = await stand.save(TagRule(), GateDraft("ci", rule), writes=False)
    repository = stand.services[0].repository_id or ""
    objects = [config_map("a")]
    stand.world.manifests.push(repository, {"dev": objects, "prod": objects})
    await stand.world.delivery.deliver(repository)
    await stand.world.report(stand.services[0])
    await stand.world.pipelines.engine.advance(view.row.id)
    async with stand.world.deps.store.write() as tx:
        jobs = await tx[JobStore].claim(["pipeline.render"], "test", stand.world.clock.now(), 10)
    for job in jobs:
        await stand.world.promotions.render(job)
    view = await stand.view()
    (edge,) = view.spec.edges
    gate, release = edge.gates[0].id, view.state.candidates[edge.id].release

    async def call(release: str, secret: str = SIGNING, late: int = 0, **more: object) -> int:
        body = orjson.dumps({"release": release, "passed": True, "reason": "412 tests", **more})
        moment = stand.world.clock.now() - timedelta(seconds=late)
        headers = signature(secret, "msg-1", moment, body)
        return (await stand.post(f"/webhooks/gates/{gate}", body, headers))[0]

    wrong = "whsec_" + base64.b64encode(b"w" * 32).decode()
    assert await call(release, wrong) == 401
    assert await call(release, late=301) == 401
    assert await call(release, passed="yes") == 400
    assert await call("r9-0123456789ab") == 409
    assert await call(release) == 204
    history = (await stand.view()).state.history
    assert any("412 tests" in one.text for one in history)
    assert await call(release) == 409


async def test_starting_and_checking_triggers_needs_the_approve_verb(stand: Stand) -> None:
    view = await stand.save(TagRule(), writes=False)
    eve = person(Role.VIEWER, "eve")
    for work in (stand.triggers.start, stand.triggers.poll_now):
        with pytest.raises(Forbidden):
            await work(eve, view.row.id, "new")
    with pytest.raises(NotFound, match="no trigger 'other'"):
        await stand.triggers.poll_now(stand.world.admin, view.row.id, "other")
    await stand.look()
    await stand.triggers.poll_now(stand.world.admin, view.row.id, "new")
    assert await stand.look() == 1


async def test_too_many_tags_to_compare_are_said(stand: Stand) -> None:
    for number in range(101):
        stand.registry.push("shop", f"b{number}")
    await stand.save(ImageRule(stand.image, ImageTagPolicy.NEWEST))
    await stand.look()
    assert "at most 100 are allowed" in (await stand.row()).error


async def test_a_trigger_that_is_gone_looks_no_more(stand: Stand) -> None:
    view = await stand.save(TagRule(), writes=False)
    await stand.world.pipelines.delete(stand.world.admin, view.row.id)
    assert await stand.look() == 1
    await stand.world.clock.advance(86_400)
    assert await stand.look() == 0


async def test_a_secret_too_odd_for_signing_is_refused(stand: Stand) -> None:
    with pytest.raises(Invalid, match="whsec_"):
        await stand.save(
            TagRule(), GateDraft("ci", ExternalRule("a@b", sealed="plain")), writes=False
        )
