"""Triggers over the store in memory: polls, their intervals, writes and manual starts."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from controlplane.authorization import ANONYMOUS, Actor
from controlplane.pipelines.model.git_writes import FileChange, FileKind, GitWrite, WriteMode
from controlplane.pipelines.model.records import PipelineTrigger
from controlplane.pipelines.model.state import FoundStatus, TriggerState
from controlplane.pipelines.model.triggers import TriggerFinding, TriggerRule
from controlplane.pipelines.operations.drafts import StageDraft, TriggerDraft
from controlplane.pipelines.operations.engine_runner import WRITE
from controlplane.pipelines.operations.trigger_rows import TRIGGER
from controlplane.pipelines.operations.triggers import Triggers
from controlplane.pipelines.ports import PipelineTriggerStore
from controlplane.pipelines.triggers.kinds import ChartRule, ImageRule, ScheduleRule, TagRule
from controlplane.pipelines.triggers.kinds.image import MAX_COMPARED, ImageTagPolicy
from controlplane.platform.context import PIPELINE, RENDER_SERVICES, SERVICE
from controlplane.platform.jobs import MAX_ATTEMPTS
from controlplane.platform.ports import JobStore
from controlplane.repositories.operations import RepositoryChange
from controlplane.repositories.ports import RepositoryStore
from controlplane.services.ports import ServiceStore
from core.errors import Conflict, Forbidden, Invalid, NotFound, Unauthenticated, Unavailable
from core.identity import RepositoryId
from core.outbound.credentials import RegistryAccount
from core.spec.edits import SetImage
from core.spec.source import GitCredentials
from tests.fakes.actors import ADMIN, EDITOR, NOBODY, VIEWER
from tests.fakes.audit_rows import audit_rows
from tests.fakes.clock import START
from tests.fakes.manifests import config_map
from tests.fakes.operations import make_repository
from tests.fakes.promotion import IN_DEV, IN_PROD, Promotion, promotion

IMAGE = "registry.example.org/shop"
SECRET = "s3cret-of-the-hook"
CHANGE = FileChange(FileKind.IMAGE, "dev/d.yaml", image="shop", value="${tag}")
IN_DEV_FOLDER = GitWrite((CHANGE,))


@dataclass
class FakeSources:
    """Registries and the tags of Git, by the time at which they were built."""

    tags_of: dict[str, datetime] = field(default_factory=dict)
    error: Exception | None = None
    accounts: list[RegistryAccount | None] = field(default_factory=list)

    def _check(self, account: RegistryAccount | None) -> None:
        self.accounts.append(account)
        if self.error is not None:
            raise self.error


class FakeRegistries(FakeSources):
    """The `Registries` port."""

    async def tags(self, image: str, account: RegistryAccount | None) -> list[str]:
        self._check(account)
        return list(self.tags_of)

    async def digest(self, image: str, tag: str, account: RegistryAccount | None) -> str:
        self._check(account)
        return f"sha256:{self.tags_of[tag]:%s}"

    async def build_time(self, image: str, tag: str, account: RegistryAccount | None) -> datetime:
        self._check(account)
        return self.tags_of[tag]


class FakeGitTags(FakeSources):
    """The `GitTags` port."""

    async def tags(self, repository_id: RepositoryId) -> list[str]:
        self._check(None)
        return list(self.tags_of)


class Watch:
    """A pipeline with one trigger, and the worker of it."""

    def __init__(self, line: Promotion) -> None:
        self.line, self.memory = line, line.memory
        self.registries, self.git_tags = FakeRegistries(), FakeGitTags()
        context = replace(line.memory.context, writer=line.writer)
        self.triggers = Triggers(
            context, line.pipelines, line.repositories, self.registries, self.git_tags
        )

    async def save(
        self, rule: TriggerRule, write: GitWrite | None = IN_DEV_FOLDER, **fields: Any
    ) -> str:
        """Saves the pipeline with this trigger; returns its ID."""
        draft = TriggerDraft("new", rule, write, fields.pop("secret", SECRET))
        view = await self.line.save(triggers=[draft], **fields)
        return view.spec.triggers[0].id

    async def run(self) -> list[str]:
        """Does the jobs that are due; returns their kinds."""
        work = {TRIGGER: self.triggers.poll, WRITE: self.triggers.write}
        done: list[str] = []
        while True:
            async with self.memory.store.write() as tx:
                jobs = await tx[JobStore].claim(work, "test", self.memory.clock.now(), 10)
            for job in jobs:
                done.append(job.kind)
                await work[job.kind](job)
                async with self.memory.store.write() as tx:
                    await tx[JobStore].finish(job)
            if not jobs:
                return done

    async def row(self) -> PipelineTrigger:
        (row,) = await self.memory.rows(PipelineTriggerStore)
        return row

    async def state(self) -> TriggerState:
        view = await self.line.view()
        return view.state.triggers.get(view.spec.triggers[0].id, TriggerState())


@pytest.fixture
async def watch() -> Watch:
    """A commit has arrived in dev, so that there is a branch to write to."""
    line = await promotion()
    await line.save()
    await line.push("1")
    return Watch(line)


def built(*tags: str) -> dict[str, datetime]:
    return {tag: START + timedelta(days=number) for number, tag in enumerate(tags)}


async def test_a_new_version_is_written_once(watch: Watch) -> None:
    watch.registries.tags_of = built("1.0.0", "1.1.0", "2.0.0", "latest")
    await watch.save(ImageRule(IMAGE, range="^1"))
    assert await watch.run() == [TRIGGER, WRITE]
    state = await watch.state()
    assert (state.finding, state.status) == (TriggerFinding("1.1.0"), FoundStatus.DONE)
    edit = SetImage("dev/d.yaml", "shop", "1.1.0")
    heads = watch.memory.manifests.heads["fleet"]
    written = watch.memory.manifests.commits[heads["main"].sha]["dev"]
    assert written == [config_map("a", v=str(edit))]
    assert "fleet" in watch.memory.manifests.hints, "the commit is fetched at once"
    await watch.memory.clock.advance(900)
    assert await watch.run() == [TRIGGER]


@pytest.mark.parametrize(
    ("rule", "finding"),
    [
        (ImageRule(IMAGE, ImageTagPolicy.REGEX, pattern=r"main-(\d+)"), "main-10"),
        (ImageRule(IMAGE, ImageTagPolicy.NEWEST, pattern=r"main-.*"), "main-9"),
        (ImageRule(IMAGE, ImageTagPolicy.NEWEST), "1.0.0"),
        (ChartRule(f"oci://{IMAGE}"), "1.0.0"),
    ],
)
async def test_each_policy_finds_its_version(watch: Watch, rule: TriggerRule, finding: str) -> None:
    watch.registries.tags_of = built("dev", "main-10", "main-9", "1.0.0")
    await watch.save(rule)
    await watch.run()
    assert (await watch.state()).finding == TriggerFinding(finding)


async def test_a_tag_that_moves_is_a_new_version(watch: Watch) -> None:
    watch.registries.tags_of = built("latest")
    await watch.save(ImageRule(IMAGE, ImageTagPolicy.DIGEST))
    await watch.run()
    first = (await watch.state()).finding
    watch.registries.tags_of = {"latest": START + timedelta(days=9)}
    await watch.memory.clock.advance(900)
    await watch.run()
    second = (await watch.state()).finding
    assert first is not None and second is not None
    assert (first.value, second.value) == ("latest", "latest") and first.digest != second.digest


async def test_too_many_images_to_compare_are_refused(watch: Watch) -> None:
    watch.registries.tags_of = built(*(f"t{number}" for number in range(MAX_COMPARED + 1)))
    await watch.save(ImageRule(IMAGE, ImageTagPolicy.NEWEST))
    await watch.run()
    assert "101 tags match, but at most 100 are allowed" in (await watch.row()).error
    del watch.registries.tags_of["t0"]
    await watch.memory.clock.advance(900)
    await watch.run()
    assert (await watch.state()).finding == TriggerFinding("t100")


async def test_services_follow_a_tag_without_a_write(watch: Watch) -> None:
    """Those of the first stage; the next ones get it from the pipeline."""
    watch.git_tags.tags_of = built("v1.0.0", "v1.1.0", "v2.0.0")
    await watch.save(TagRule("^1"), None)
    watch.memory.bus.published.clear()
    await watch.run()
    refs = [(await watch.line.service(one)).spec.ref for one in (IN_DEV, IN_PROD)]
    assert refs == ["v1.1.0", "main"]
    assert (await watch.state()).reason == "services follow v1.1.0"
    assert (SERVICE, IN_DEV.id) in watch.memory.published
    assert (RENDER_SERVICES, f"fleet/{IN_DEV.id}") in watch.memory.published


async def test_services_that_another_pipeline_promotes_follow_no_tag(watch: Watch) -> None:
    watch.git_tags.tags_of = built("v1.0.0")
    await watch.save(TagRule("^1"), None)
    async with watch.memory.store.write() as tx:
        service = await watch.line.service(IN_DEV)
        await tx[ServiceStore].put(service.changed(promoted=True))
    await watch.run()
    state = await watch.state()
    assert (state.status, state.reason) == (
        FoundStatus.FAILED,
        "another pipeline promotes the first stage's services",
    )


async def intervals(watch: Watch, count: int) -> list[int]:
    """Seconds between polls."""
    found = []
    for _ in range(count):
        await watch.run()
        row = await watch.row()
        now = watch.memory.clock.now()
        assert row.next_at is not None and row.checked_at == now
        found.append(int((row.next_at - now).total_seconds()))
        await watch.memory.clock.advance(found[-1])
    return found


async def test_polls_become_rarer_until_something_is_new(watch: Watch) -> None:
    watch.registries.tags_of = built("1.0.0")
    await watch.save(ImageRule(IMAGE))
    assert await intervals(watch, 6) == [60, 120, 240, 480, 900, 900]
    watch.registries.tags_of = built("1.0.0", "1.1.0")
    assert await intervals(watch, 2) == [60, 120]


@pytest.mark.parametrize(("wanted", "seconds"), [(3_600, 3_600), (10, 61), (10**6, 86_400)])
async def test_a_registry_may_ask_for_a_pause(watch: Watch, wanted: int, seconds: int) -> None:
    """At least a minute, at most a day; no webhook brings the poll forward."""
    watch.registries.error = Unavailable("too many requests", retry_after=wanted)
    id = await watch.save(ImageRule(IMAGE))
    assert await intervals(watch, 1) == [seconds]
    row = await watch.row()
    assert row.error == "too many requests"
    await watch.run()
    await watch.triggers.schedule_poll_soon(id)
    await watch.memory.clock.advance(seconds - 1)
    assert await watch.run() == []
    await watch.memory.clock.advance(1)
    assert await watch.run() == [TRIGGER]


@pytest.mark.parametrize(
    ("tags", "error"), [(["2.0.0"], "no version matches"), ([], "no version matches")]
)
async def test_a_poll_that_finds_nothing_says_so(watch: Watch, tags: list[str], error: str) -> None:
    watch.registries.tags_of = built(*tags)
    await watch.save(ImageRule(IMAGE, range="^1"))
    assert await watch.run() == [TRIGGER]
    assert (await watch.row()).error == error
    assert (await watch.state()).finding is None


async def test_a_failed_write_is_tried_again_with_the_next_poll(watch: Watch) -> None:
    watch.registries.tags_of = built("1.0.0")
    await watch.save(ImageRule(IMAGE))
    watch.line.writer.error = Forbidden("the branch is protected")
    await watch.run()
    state = await watch.state()
    assert (state.status, state.reason) == (FoundStatus.FAILED, "the branch is protected")
    watch.line.writer.error = None
    await watch.memory.clock.advance(900)
    assert await watch.run() == [TRIGGER, WRITE]
    assert (await watch.state()).status is FoundStatus.DONE


@pytest.mark.parametrize(("attempts", "fails"), [(MAX_ATTEMPTS - 1, False), (MAX_ATTEMPTS, True)])
async def test_a_host_that_is_away_is_tried_as_often_as_any_job(
    watch: Watch, attempts: int, fails: bool
) -> None:
    watch.registries.tags_of = built("1.0.0")
    await watch.save(ImageRule(IMAGE))
    watch.line.writer.error = Unavailable("no answer")
    with pytest.raises(Unavailable):
        await watch.run()
    await watch.memory.clock.advance(3_600)
    async with watch.memory.store.write() as tx:
        (job,) = await tx[JobStore].claim((WRITE,), "test", watch.memory.clock.now(), 10)
    last = replace(job, attempts=attempts)
    if not fails:
        with pytest.raises(Unavailable):
            await watch.triggers.write(last)
        return
    await watch.triggers.write(last)
    assert (await watch.state()).status is FoundStatus.FAILED


async def test_a_request_is_opened_for_a_version(watch: Watch) -> None:
    watch.registries.tags_of = built("1.0.0")
    write = GitWrite((CHANGE,), WriteMode.REQUEST, "Use ${tag}", "towline/${release}")
    await watch.save(ImageRule(IMAGE), write)
    await watch.run()
    assert watch.line.writer.opened == [("towline/1.0.0", "main", "Use 1.0.0", "")]
    state = await watch.state()
    assert state.change is not None and state.change.number == 1


async def test_a_repository_that_the_services_moved_to_is_not_written_to(watch: Watch) -> None:
    watch.registries.tags_of = built("1.0.0")
    await watch.save(ImageRule(IMAGE))
    commits = len(watch.line.writer.commits)
    await watch.memory.given(make_repository("other"))
    async with watch.memory.store.write() as tx:
        service = await watch.line.service(IN_DEV)
        await tx[ServiceStore].put(service.changed(repository_id="other"))
    await watch.run()
    assert (await watch.state()).status is FoundStatus.FAILED
    assert len(watch.line.writer.commits) == commits


async def test_a_registry_is_asked_with_the_credentials_of_the_project(watch: Watch) -> None:
    """Those of the longest URL that the image begins with; a mere prefix of its name is none."""
    for path, name in (("/team", "all"), ("/team/shop", "ann"), ("/team/sh", "eve")):
        credentials = GitCredentials(username=name, password=f"canary-18cd-{name}")
        url = f"https://registry.example.org{path}"
        await watch.line.repositories.create(ADMIN, RepositoryChange(url, credentials))
    watch.registries.tags_of = built("1.0.0")
    await watch.save(ImageRule("registry.example.org/team/shop"))
    await watch.run()
    assert watch.registries.accounts == [RegistryAccount("ann", "canary-18cd-ann")]


@pytest.mark.parametrize("call", ["start", "poll_now"])
async def test_starts_and_polls_need_the_permission_to_approve(watch: Watch, call: str) -> None:
    await watch.save(ImageRule(IMAGE))
    id = (await watch.line.view()).row.id
    entries = await watch.memory.audited()

    async def run(actor: Actor) -> Any:
        if call == "start":
            return await watch.triggers.start(actor, id, "now")
        return await watch.triggers.poll_now(actor, id, "new")

    for actor, error in (
        (ANONYMOUS, Unauthenticated),
        (NOBODY, NotFound),
        (VIEWER, Forbidden),
    ):
        with pytest.raises(error):
            await run(actor)
    assert await watch.memory.audited() == entries


async def test_a_poll_on_request_is_recorded_and_due_at_once(watch: Watch) -> None:
    watch.registries.tags_of = built("1.0.0")
    await watch.save(ImageRule(IMAGE))
    await watch.run()
    view = await watch.line.view()
    watch.memory.bus.published.clear()
    await watch.triggers.poll_now(EDITOR, view.row.id, "new")
    assert (PIPELINE, view.row.id) in watch.memory.published
    assert (await watch.memory.audited())[-1] == ("ed@example.org", "checkTrigger", "shop")
    assert await watch.run() == [TRIGGER]
    await watch.triggers.poll_now(EDITOR, view.row.id, view.spec.triggers[0].id)
    with pytest.raises(NotFound, match="pipeline 'shop' has no trigger 'none'"):
        await watch.triggers.poll_now(EDITOR, view.row.id, "none")


async def test_a_schedule_is_not_polled(watch: Watch) -> None:
    await watch.save(ScheduleRule("0 9 * * *"), None, on_commit=False, secret="")
    assert await watch.memory.rows(PipelineTriggerStore) == []
    view = await watch.line.view()
    with pytest.raises(NotFound):
        await watch.triggers.poll_now(EDITOR, view.row.id, "new")


async def test_a_release_is_started_by_hand_where_commits_start_none(watch: Watch) -> None:
    await watch.save(ScheduleRule("0 9 * * *"), None, on_commit=False, secret="")
    view = await watch.line.view()
    with pytest.raises(Conflict, match="nothing to start"):
        await watch.triggers.start(EDITOR, view.row.id)
    before = (await watch.line.state("dev")).release
    await watch.line.push("2")
    assert (await watch.line.state("dev")).release == before
    await watch.triggers.start(EDITOR, view.row.id, "x" * 2_000)
    assert (await watch.line.state("dev")).release != before
    async with watch.memory.store.read() as tx:
        entry = (await audit_rows(tx))[-1]
    assert (entry.actor, entry.action) == ("ed@example.org", "startRelease")
    assert entry.detail["event"]["reason"] == "x" * 999 + "…"


async def test_webhooks_bring_polls_forward_but_not_closer_than_seconds(watch: Watch) -> None:
    watch.registries.tags_of = built("1.0.0")
    id = await watch.save(ImageRule(IMAGE))
    await watch.run()
    watch.memory.bus.published.clear()
    await watch.triggers.schedule_poll_soon(id)
    assert (PIPELINE, (await watch.line.view()).row.id) in watch.memory.published
    await watch.memory.clock.advance(4)
    assert await watch.run() == []
    await watch.memory.clock.advance(1)
    assert await watch.run() == [TRIGGER]
    await watch.triggers.schedule_poll_soon("gone")


async def test_the_secret_of_a_webhook_is_sealed_and_kept(watch: Watch) -> None:
    id = await watch.save(ImageRule(IMAGE))
    row = await watch.row()
    assert row.sealed_webhook is not None and SECRET.encode() not in row.sealed_webhook
    assert await watch.triggers.webhook_secret(id) == SECRET
    assert await watch.save(ImageRule(IMAGE), secret="") == id
    assert await watch.triggers.webhook_secret(id) == SECRET
    await watch.save(ImageRule(IMAGE), secret="another-secret-of-it")
    assert await watch.triggers.webhook_secret(id) == "another-secret-of-it"
    for unknown in ("none", (await watch.line.gate())):
        assert await watch.triggers.webhook_secret(unknown) is None
    rows: Mapping[str, PipelineTrigger] = await watch.triggers.rows(
        (await watch.line.view()).row.id
    )
    assert set(rows) == {id}


async def test_another_rule_is_another_trigger(watch: Watch) -> None:
    """It finds everything anew, and the secret of the first one is gone."""
    first = await watch.save(ImageRule(IMAGE))
    second = await watch.save(ImageRule(IMAGE, range="^1"), secret="")
    assert first != second
    assert await watch.triggers.webhook_secret(second) is None
    assert (await watch.row()).id == second


async def test_jobs_of_a_trigger_that_is_gone_end(watch: Watch) -> None:
    watch.registries.tags_of = built("1.0.0")
    await watch.save(ImageRule(IMAGE))
    await watch.line.save()
    assert await watch.memory.rows(PipelineTriggerStore) == []
    assert await watch.run() == [TRIGGER]
    assert watch.registries.accounts == []
    await watch.save(ImageRule(IMAGE))
    await watch.line.pipelines.delete(ADMIN, (await watch.line.view()).row.id)
    await watch.run()
    assert watch.registries.accounts == []


async def test_a_trigger_that_writes_needs_write_access(watch: Watch) -> None:
    """One that only moves services needs it on them."""
    for rule, write in ((ImageRule(IMAGE), IN_DEV_FOLDER), (TagRule(), None)):
        draft = TriggerDraft("new", rule, write)
        with pytest.raises(Forbidden):
            await watch.line.save(triggers=[draft], actor=VIEWER)
        await watch.line.save(triggers=[draft], actor=EDITOR)
    with pytest.raises(Invalid, match="requires `git`"):
        await watch.line.save(triggers=[TriggerDraft("new", ImageRule(IMAGE))])


async def test_services_of_a_trigger_share_a_branch(watch: Watch) -> None:
    async with watch.memory.store.write() as tx:
        service = await watch.line.service(IN_DEV)
        await tx[ServiceStore].put(service.changed(repository_id=None))
        assert await tx[RepositoryStore].get("fleet") is not None
    with pytest.raises(Conflict, match="must share one repository and one branch"):
        stages = [StageDraft("dev", [IN_DEV.id])]
        await watch.save(ImageRule(IMAGE), stages=stages, edges=[])
