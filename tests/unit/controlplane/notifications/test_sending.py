"""Deliveries to sinks and the forwarding of the audit log: attempts, retries, leases, contents."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import pytest

from controlplane.audit.model.chains import AuditKind
from controlplane.generators.model.service_set import Generator, PullRequestGenerator, ServiceSet
from controlplane.notifications.model.commit_status import commit_key
from controlplane.notifications.model.notification import (
    MAX_ATTEMPTS,
    Delivery,
    DeliveryState,
    Sink,
    delivery_retry_delay,
)
from controlplane.notifications.model.sink_kind import SinkKind
from controlplane.notifications.operations.sending import NotificationSender
from controlplane.notifications.operations.sinks import SinkDraft, Sinks
from controlplane.notifications.ports import DeliveryStore, NotificationStore, SinkStore
from controlplane.notifications.sinks.github import GithubSink
from controlplane.notifications.sinks.gitlab import GitlabSink
from controlplane.notifications.sinks.slack import SlackSink
from controlplane.notifications.sinks.syslog import SyslogSink
from controlplane.notifications.sinks.teams import TeamsSink
from controlplane.notifications.sinks.webhook import WebhookSink
from controlplane.platform.notification import NotificationKind, notification
from controlplane.repositories.ports import RepositoryStore
from controlplane.services.model.service import OwnerKind
from core.errors import Unavailable
from tests.fakes.actors import ADMIN
from tests.fakes.clock import START, FakeClock
from tests.fakes.operations import (
    MemoryOperations,
    make_cluster,
    make_repository,
    make_service,
    operations_over_memory,
)
from tests.fakes.outbound import FakeClient

SLACK = SlackSink("https://hooks.example.org/slack")
GIT = make_repository("git", url="https://github.com/example/fleet.git")
SHA = "a" * 40
DEV = make_cluster("dev")
PREVIEWS = Generator(requests=PullRequestGenerator("git"))
FAILED = notification(
    NotificationKind.SERVICE_FAILED,
    START,
    "web in dev failed",
    "crash <loop> & [more](https://evil.example.org)",
    cluster_id="dev",
    service_id="dev-web",
    detail={"stage": "failed", "sha": SHA, "cluster": "dev", "service": "web"},
)


@dataclass
class Post:
    """A sink, and a sender whose requests are recorded."""

    memory: MemoryOperations
    client: FakeClient

    def __post_init__(self) -> None:
        self.sender = NotificationSender(self.memory.context, self.client, "towline.example.org")

    async def sink(self, settings: SinkKind = SLACK, **columns: Any) -> Sink:
        draft = SinkDraft(columns.pop("name", settings.kind.lower()), settings, **columns)
        return (await Sinks(self.memory.context).upsert(ADMIN, draft))[0]

    async def queue(self, sink: Sink, news: Any = FAILED, **columns: Any) -> Delivery:
        """A notification that is routed to the sink."""
        now = self.memory.clock.now()
        async with self.memory.store.write() as tx:
            id = await tx[NotificationStore].add(news)
            delivery = Delivery(f"d{id}", id, sink.id, "", now, now)
            await tx[DeliveryStore].add(replace(delivery, **columns))
        return delivery

    async def delivery(self) -> Delivery:
        (delivery,) = await self.memory.rows(DeliveryStore)
        return delivery

    async def stored(self) -> Sink:
        (sink,) = await self.memory.rows(SinkStore)
        return sink


@pytest.fixture
async def post() -> Post:
    post = Post(operations_over_memory(), FakeClient())
    await post.memory.given(GIT)
    return post


async def test_a_delivery_that_arrives_is_done(post: Post) -> None:
    await post.queue(await post.sink())
    assert await post.sender.deliver() == 1
    delivery, now = await post.delivery(), post.memory.clock.now()
    assert (delivery.state, delivery.status, delivery.attempts) == (DeliveryState.DONE, 200, 1)
    assert (delivery.finished_at, delivery.error) == (now, "")
    assert await post.sender.deliver() == 0


@pytest.mark.parametrize(
    ("answer", "status", "error"),
    [
        (500, 500, "the sink returned 500"),
        (300, 300, "the sink returned 300"),
        (Unavailable("no answer within 10 s"), None, "no answer within 10 s"),
    ],
)
async def test_a_delivery_that_fails_is_tried_again_later(
    post: Post, answer: int | Exception, status: int | None, error: str
) -> None:
    """The second attempt waits twice as long as the first."""
    post.client.answers = [answer]
    await post.queue(await post.sink())
    for attempt, seconds in ((1, 5), (2, 10), (3, 20)):
        assert await post.sender.deliver() == 1
        delivery = await post.delivery()
        assert (delivery.state, delivery.attempts) == (DeliveryState.WAITING, attempt)
        assert (delivery.status, delivery.error, delivery.finished_at) == (status, error, None)
        assert delivery.due_at == post.memory.clock.now() + timedelta(seconds=seconds)
        assert await post.sender.deliver() == 0, "not before its time"
        await post.memory.clock.advance(seconds)


@pytest.mark.parametrize(("attempts", "status"), [(MAX_ATTEMPTS - 1, 500), (0, 410)])
async def test_a_delivery_is_given_up(post: Post, attempts: int, status: int) -> None:
    """After the last attempt, or when the receiver says that it is gone."""
    post.client.answers = [status]
    await post.queue(await post.sink(), attempts=attempts)
    await post.sender.deliver()
    delivery = await post.delivery()
    assert (delivery.state, delivery.status) == (DeliveryState.DEAD, status)
    assert delivery.finished_at == post.memory.clock.now()
    await post.memory.clock.advance(86_400)
    assert await post.sender.deliver() == 0


def test_the_delay_between_attempts_doubles_up_to_an_hour() -> None:
    delays = [delivery_retry_delay(attempt).total_seconds() for attempt in (1, 2, 3, 10, 11, 99)]
    assert delays == [5, 10, 20, 2_560, 3_600, 3_600]


async def test_one_sink_that_fails_holds_up_no_other(post: Post) -> None:
    slow = await post.sink()
    fast = await post.sink(SlackSink("https://other.example.org"), name="other")
    await post.queue(slow)
    await post.queue(fast)
    post.client.answers = [Unavailable("no answer"), 200]
    await post.sender.deliver()
    states = {row.sink_id: row.state for row in await post.memory.rows(DeliveryStore)}
    assert states == {slow.id: DeliveryState.WAITING, fast.id: DeliveryState.DONE}


async def test_a_delivery_to_a_sink_that_is_gone_ends(post: Post) -> None:
    sink = await post.sink()
    await post.queue(sink)
    async with post.memory.store.write() as tx:
        await tx[SinkStore].remove(sink.id)
    await post.sender.deliver()
    assert post.client.posts == []
    assert [row.state for row in await post.memory.rows(DeliveryStore)] in ([], ["dead"])


async def test_a_webhook_is_signed_and_complete(post: Post) -> None:
    sink = await post.sink(WebhookSink("https://hooks.example.org/a"))
    delivery = await post.queue(sink, replace(FAILED, project_id="shop"))
    await post.sender.deliver()
    ((url, headers, body),) = post.client.posts
    assert url == "https://hooks.example.org/a"
    assert headers["webhook-id"] == delivery.id and headers["webhook-signature"].startswith("v1,")
    assert (body["type"], body["timestamp"]) == ("service.failed", START.isoformat())
    data = body["data"]
    assert (data["severity"], data["subject"], data["text"]) == (
        "error",
        FAILED.subject,
        FAILED.text,
    )
    assert (data["projectId"], data["clusterId"]) == ("shop", "dev")
    assert (data["serviceId"], data["pipelineId"]) == ("dev-web", None)
    assert data["detail"] == dict(FAILED.detail)


async def test_a_retry_has_the_id_of_the_first_attempt(post: Post) -> None:
    """The receiver knows by it that it got the message already."""
    post.client.answers = [500, 200]
    await post.queue(await post.sink(WebhookSink("https://hooks.example.org/a")))
    await post.sender.deliver()
    await post.memory.clock.advance(5)
    await post.sender.deliver()
    first, second = (headers["webhook-id"] for _, headers, _ in post.client.posts)
    assert first == second


async def test_texts_become_no_markup_in_chats(post: Post) -> None:
    for settings in (SLACK, TeamsSink("https://teams.example.org/a")):
        await post.queue(await post.sink(settings))
        await post.sender.deliver()
    (_, _, slack), (_, _, teams) = post.client.posts
    (attachment,) = slack["attachments"]
    assert attachment["text"].startswith("crash &lt;loop&gt; &amp; ")
    assert (attachment["color"], attachment["footer"]) == ("#e01e5a", "service.failed")
    title, text = teams["attachments"][0]["content"]["body"]
    assert title["text"] == FAILED.subject and title["color"] == "Attention"
    assert text["text"] == "crash <loop> & (more)(https://evil.example.org)"


async def test_a_long_text_is_cut_in_chats(post: Post) -> None:
    for settings in (SLACK, TeamsSink("https://teams.example.org/a")):
        await post.queue(await post.sink(settings), replace(FAILED, text="x" * 2_000))
        await post.sender.deliver()
    (_, _, slack), (_, _, teams) = post.client.posts
    assert slack["attachments"][0]["text"] == "x" * 1_500
    assert teams["attachments"][0]["content"]["body"][1]["text"] == "x" * 1_500


async def test_a_syslog_server_gets_the_event_as_a_row(post: Post) -> None:
    await post.queue(await post.sink(SyslogSink("syslog+tls://logs.example.org:6514")))
    await post.sender.deliver()
    ((url, (line,)),) = post.client.lines
    assert url == "syslog+tls://logs.example.org:6514"
    for part in (b"towline.example.org", b"service.failed", b"web in dev failed", b"crash"):
        assert part in line


GITHUB = GithubSink("git", "canary-0a1b-token")
GITLAB = GitlabSink("git", "canary-0a1b-token", "https://gitlab.example.org/api/v4")


@pytest.mark.parametrize(
    ("settings", "url", "state", "name"),
    [
        (GITHUB, "https://api.github.com/repos/example/fleet/statuses/", "failure", "context"),
        (
            GITLAB,
            "https://gitlab.example.org/api/v4/projects/example%2Ffleet/statuses/",
            "failed",
            "name",
        ),
    ],
)
async def test_a_commit_gets_the_state_of_the_service(
    post: Post, settings: SinkKind, url: str, state: str, name: str
) -> None:
    await post.queue(await post.sink(settings))
    await post.sender.deliver()
    ((posted, headers, body),) = post.client.posts
    assert posted == url + SHA
    assert (body["state"], body[name]) == (state, "towline/dev/web")
    assert body["description"] == FAILED.text
    sent = headers.get("authorization", "") + headers.get("private-token", "")
    assert sent.endswith("canary-0a1b-token")


async def test_a_commit_gets_the_state_of_each_stage(post: Post) -> None:
    detail = {"pipeline": "shop", "environment": "prod", commit_key("git"): SHA}
    news = replace(
        FAILED,
        kind=NotificationKind.GATE_WAITING,
        subject="shop waits before prod",
        pipeline_id="p",
        detail=detail,
    )
    await post.queue(await post.sink(GITHUB), news)
    await post.sender.deliver()
    ((_, _, body),) = post.client.posts
    assert body == {
        "state": "pending",
        "context": "towline/shop/prod",
        "description": "shop waits before prod",
    }
    assert post.client.requests == [], "a pending status comments nowhere"


@pytest.mark.parametrize(
    ("stage", "status", "comments"),
    [
        ("failed", 200, True),
        ("failed", 299, True),
        ("failed", 300, False),
        ("healthy", 200, True),
        ("rendered", 200, False),
    ],
)
async def test_a_preview_is_commented_on_after_a_final_status(
    post: Post, stage: str, status: int, comments: bool
) -> None:
    owner = ServiceSet("set", "previews", START, START, generator=PREVIEWS)
    web = make_service("web", DEV, owner_kind=OwnerKind.SET, owner_id="set")
    await post.memory.given(DEV, owner, web)
    post.client.answers = [status]
    news = replace(FAILED, detail={**FAILED.detail, "stage": stage})
    await post.queue(await post.sink(GITHUB), news)
    await post.sender.deliver()
    listing = ("GET", f"https://api.github.com/repos/example/fleet/commits/{SHA}/pulls")
    assert post.client.requests == ([listing] if comments else [])


async def test_a_notification_without_a_text_shows_its_subject_at_the_commit(post: Post) -> None:
    await post.queue(await post.sink(GITHUB), replace(FAILED, text=""))
    await post.sender.deliver()
    ((_, _, body),) = post.client.posts
    assert body["description"] == FAILED.subject


async def test_a_delivery_to_a_repository_that_is_gone_ends(post: Post) -> None:
    await post.queue(await post.sink(GITHUB))
    async with post.memory.store.write() as tx:
        await tx[RepositoryStore].remove("git")
    await post.sender.deliver()
    delivery = await post.delivery()
    assert (delivery.state, delivery.status) == (DeliveryState.DEAD, 410)
    assert post.client.posts == []


@pytest.mark.parametrize(
    "news",
    [
        replace(FAILED, detail={**FAILED.detail, "sha": ""}),
        replace(FAILED, detail={**FAILED.detail, "stage": "synced"}),
        replace(FAILED, pipeline_id="p"),
    ],
)
async def test_news_about_no_commit_set_no_status(post: Post, news: Any) -> None:
    await post.queue(await post.sink(GITHUB), news)
    await post.sender.deliver()
    assert post.client.posts == []
    assert (await post.delivery()).state is DeliveryState.DONE


async def test_a_token_is_never_sent_to_another_host(post: Post) -> None:
    """Whoever changes the URL of the repository would get it."""
    await post.queue(await post.sink(GithubSink("git", "token")))
    async with post.memory.store.write() as tx:
        await tx[RepositoryStore].change("git", url="https://evil.example.org/x.git")
    await post.sender.deliver()
    assert post.client.posts == [] and post.client.requests == []
    assert "moved to another host: set the token again" in (await post.delivery()).error


async def audited(post: Post, count: int) -> None:
    """Entries of the log of changes."""
    async with post.memory.store.write() as tx:
        for number in range(count):
            await post.memory.context.audit(tx, ADMIN, "updateCluster", f"c{number}", "c")


async def test_audit_entries_are_forwarded_once_and_in_order(post: Post) -> None:
    await post.sink(WebhookSink("https://hooks.example.org/a"), audit=(AuditKind.CHANGE,))
    await audited(post, 3)
    await post.sender.forward_audit()
    sent = [row["target"] for _, _, body in post.client.posts for row in body["data"]]
    assert sent[-3:] == ["c0", "c1", "c2"]
    assert {body["type"] for _, _, body in post.client.posts} == {"audit.change"}
    count = len(post.client.posts)
    await post.memory.clock.advance(10)
    await post.sender.forward_audit()
    assert len(post.client.posts) == count
    await audited(post, 1)
    await post.memory.clock.advance(10)
    await post.sender.forward_audit()
    assert [row["target"] for row in post.client.posts[-1][2]["data"]] == ["c0"]
    stored = await post.stored()
    assert (stored.failures, stored.error) == (0, "")


async def test_audit_entries_that_fail_are_sent_again_from_the_same_place(post: Post) -> None:
    await post.sink(WebhookSink("https://hooks.example.org/a"), audit=(AuditKind.CHANGE,))
    before = dict((await post.stored()).sent)
    await audited(post, 2)
    post.client.answers = [503]
    await post.sender.forward_audit()
    stored = await post.stored()
    assert (dict(stored.sent), stored.failures) == (before, 1)
    assert stored.error == "the sink returned 503"
    assert stored.due_at == post.memory.clock.now() + timedelta(seconds=5)
    await post.sender.forward_audit()
    assert len(post.client.posts) == 1, "it waits"
    post.client.answers = [200]
    await post.memory.clock.advance(5)
    await post.sender.forward_audit()
    first, again = (headers["webhook-id"] for _, headers, _ in post.client.posts[:2])
    assert first == again
    stored = await post.stored()
    assert (stored.failures, stored.error) == (0, "")


async def test_a_sink_is_forwarded_to_by_one_replica_at_a_time(post: Post) -> None:
    """The lease of another replica is respected until it ends."""
    sink = await post.sink(WebhookSink("https://hooks.example.org/a"), audit=(AuditKind.CHANGE,))
    await audited(post, 1)
    lease = post.memory.clock.now() + timedelta(seconds=60)
    async with post.memory.store.write() as tx:
        await tx[SinkStore].lease(sink.id, lease)
    await post.sender.forward_audit()
    assert post.client.posts == []
    await post.memory.clock.advance(60)
    await post.sender.forward_audit()
    assert len(post.client.posts) == 1


async def test_a_sink_without_audit_kinds_gets_no_entry(post: Post) -> None:
    sink = await post.sink(WebhookSink("https://hooks.example.org/a"))
    await audited(post, 1)
    await post.sender.forward_audit()
    assert post.client.posts == [] and await post.stored() == sink


async def test_many_audit_entries_are_forwarded_in_batches_until_the_lease_ends(
    post: Post,
) -> None:
    """A slow receiver gets one batch, so that another replica can take over afterwards."""
    await post.sink(WebhookSink("https://hooks.example.org/a"), audit=(AuditKind.CHANGE,))
    await audited(post, 401)
    await post.sender.forward_audit()
    assert [len(body["data"]) for _, _, body in post.client.posts] == [200, 200, 2]
    await audited(post, 400)
    await post.memory.clock.advance(1.9)
    await post.sender.forward_audit()
    assert len(post.client.posts) == 3, "a pause follows each turn"
    await post.memory.clock.advance(0.1)
    slow = NotificationSender(post.memory.context, SlowClient(post.memory.clock, post.client))
    await slow.forward_audit()
    assert [len(body["data"]) for _, _, body in post.client.posts[3:]] == [200]


class SlowClient(FakeClient):
    """Takes 15 s for each request."""

    def __init__(self, clock: FakeClock, client: FakeClient) -> None:
        super().__init__()
        self.clock = clock
        self.client = client

    async def post(self, url: str, headers: Mapping[str, str], body: bytes) -> int:
        await self.clock.advance(15)
        return await self.client.post(url, headers, body)


async def test_a_replica_whose_lease_ended_overwrites_nothing(post: Post) -> None:
    sink = await post.sink(WebhookSink("https://hooks.example.org/a"), audit=(AuditKind.CHANGE,))
    await audited(post, 1)
    other = post.memory.clock.now() + timedelta(seconds=90)

    class Overtaken(FakeClient):
        async def post(self, url: str, headers: Mapping[str, str], body: bytes) -> int:
            async with post.memory.store.write() as tx:
                await tx[SinkStore].lease(sink.id, other)
            return 200

    await NotificationSender(post.memory.context, Overtaken()).forward_audit()
    stored = await post.stored()
    assert (stored.due_at, dict(stored.sent)) == (other, dict(sink.sent))
