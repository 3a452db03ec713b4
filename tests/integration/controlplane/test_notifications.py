"""Notifications on their way: real HTTP servers that take, fail, hang and lead elsewhere."""

import asyncio
import base64
import hashlib
import hmac
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import timedelta

import orjson
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from controlplane.audit.model.chains import AuditKind
from controlplane.authorization import DEFAULT_PROJECT, Scope
from controlplane.authorization.roles import BuiltInRole as Role
from controlplane.clusters.operations.clusters import ClusterChange
from controlplane.clusters.ports import ClusterStore
from controlplane.notifications.model.notification import (
    MAX_ATTEMPTS,
    DeliveryState,
    RouterRule,
    Sink,
)
from controlplane.notifications.model.sink_kind import CommitSink, UrlSink
from controlplane.notifications.operations.notifications import Notifications
from controlplane.notifications.operations.routers import RouterDraft, Routers
from controlplane.notifications.operations.routing import NotificationRouting, StateWatcher
from controlplane.notifications.operations.sending import NotificationSender
from controlplane.notifications.operations.sinks import SinkDraft, Sinks
from controlplane.notifications.sinks.github import GithubSink
from controlplane.notifications.sinks.gitlab import GitlabSink
from controlplane.notifications.sinks.slack import SlackSink
from controlplane.notifications.sinks.syslog import SyslogSink
from controlplane.notifications.sinks.teams import TeamsSink
from controlplane.notifications.sinks.webhook import WebhookSink
from controlplane.platform.notification import NotificationKind, Severity
from controlplane.platform.outbound.outbound import GuardedSender
from controlplane.platform.ports import PageQuery
from controlplane.services.ports import ServiceStore
from core.errors import Conflict, Forbidden, Invalid, NotFound
from core.spec.status import Phase, Problem
from tests.integration.controlplane.conftest import World, person


@dataclass
class Receiver:
    """A server that records its requests and returns the given answers."""

    url: str = ""
    got: list[tuple[str, dict[str, str], bytes]] = field(default_factory=list)
    answers: list[web.Response] = field(default_factory=list)
    hangs: bool = False
    released: asyncio.Event = field(default_factory=asyncio.Event)

    async def take(self, request: web.Request) -> web.StreamResponse:
        headers = {name.lower(): value for name, value in request.headers.items()}
        self.got.append((request.path, headers, await request.read()))
        if self.hangs:
            await self.released.wait()
        return self.answers.pop(0) if self.answers else web.Response()


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    one, app = Receiver(), web.Application()
    app.router.add_route("*", "/{path:.*}", one.take)
    async with TestServer(app, host="127.0.0.1") as server:
        one.url = f"http://127.0.0.1:{server.port}"
        yield one
        one.released.set()


@dataclass
class Stand:
    """The verbs over a world, and a client that may reach this machine."""

    world: World
    outward: GuardedSender

    def __post_init__(self) -> None:
        deps = self.world.deps
        self.sinks, self.routers = Sinks(deps), Routers(deps)
        self.notifications = Notifications(deps)
        self.routing, self.watch = NotificationRouting(deps), StateWatcher(deps)
        self.sending = NotificationSender(deps, self.outward)

    async def sink(self, url: str, type: type[UrlSink] = WebhookSink, **more) -> Sink:
        draft = SinkDraft("sink", type(url), **more)
        sink, self.secret = await self.sinks.upsert(self.world.admin, draft)
        return sink

    async def router(self, sink: Sink, **more) -> None:
        draft = RouterDraft("router", RouterRule(sinks=(sink.id,), **more))
        await self.routers.upsert(self.world.admin, draft)

    async def send(self) -> None:
        """Route and send whatever waits."""
        await self.routing.route()
        await self.sending.deliver()

    async def states(self) -> list[tuple[DeliveryState, int, str]]:
        page = await self.notifications.deliveries(self.world.admin, PageQuery())
        return [(one.state, one.attempts, one.error) for one in page.items]

    async def kinds(self) -> list[NotificationKind]:
        page = await self.notifications.page(self.world.admin, PageQuery())
        return [one.kind for one in page.items][::-1]


@pytest.fixture
async def stand(world: World) -> AsyncIterator[Stand]:
    outward = GuardedSender(("127.0.0.0/8",))
    yield Stand(world, outward)
    await outward.close()


async def test_the_webhook_of_a_failed_service_is_signed(stand: Stand, receiver: Receiver) -> None:
    """Follows Standard Webhooks, so that any of its libraries verifies it."""
    world = stand.world
    await stand.router(await stand.sink(f"{receiver.url}/hook"), severity=Severity.ERROR)
    service = await world.service(await world.cluster(), await world.repository())
    await world.report(service, Phase.FAILED, (Problem("no such image"),))
    await stand.send()
    ((path, headers, body),) = receiver.got
    event = orjson.loads(body)
    assert (path, event["type"]) == ("/hook", "service.failed")
    assert event["data"]["subject"] == "shop in dev has failed"
    assert event["data"]["text"] == "no such image"
    assert stand.secret is not None
    key = base64.b64decode(stand.secret.removeprefix("whsec_"))
    signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
    wanted = base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
    assert headers["webhook-signature"] == f"v1,{wanted}"
    assert await stand.states() == [(DeliveryState.DONE, 1, "")]


async def test_recovery_is_announced_only_after_a_failure(stand: Stand) -> None:
    world = stand.world
    service = await world.service(await world.cluster(), await world.repository())
    for phase in (Phase.HEALTHY, Phase.FAILED, Phase.HEALTHY):
        await world.clock.advance(1)
        await world.report(service, phase)
    await stand.routing.route()
    assert await stand.kinds() == [
        NotificationKind.SERVICE_UPDATE,
        NotificationKind.SERVICE_FAILED,
        NotificationKind.SERVICE_RECOVERED,
    ]


async def test_a_failing_delivery_is_retried_and_finally_given_up(
    stand: Stand, receiver: Receiver
) -> None:
    """With the same id each time; once given up it can be sent again by hand."""
    sink = await stand.sink(receiver.url)
    receiver.answers = [web.Response(status=500) for _ in range(MAX_ATTEMPTS)]
    delivery = await stand.notifications.test_sink(stand.world.admin, sink.id)
    for _ in range(MAX_ATTEMPTS):
        await stand.sending.deliver()
        await stand.sending.deliver()
        await stand.world.clock.advance(3601)
    assert len(receiver.got) == MAX_ATTEMPTS
    assert {headers["webhook-id"] for _, headers, _ in receiver.got} == {delivery.id}
    assert await stand.states() == [(DeliveryState.DEAD, 12, "the sink returned 500")]
    await stand.notifications.resend(stand.world.admin, delivery.id)
    await stand.sending.deliver()
    assert await stand.states() == [(DeliveryState.DONE, 1, "")]


async def test_a_redirect_is_not_followed(stand: Stand, receiver: Receiver) -> None:
    elsewhere = {"location": f"{receiver.url}/elsewhere"}
    receiver.answers = [web.Response(status=307, headers=elsewhere)]
    sink = await stand.sink(f"{receiver.url}/here")
    await stand.notifications.test_sink(stand.world.admin, sink.id)
    await stand.sending.deliver()
    assert [path for path, _, _ in receiver.got] == ["/here"]
    ((state, _, error),) = await stand.states()
    assert (state, error) == (DeliveryState.WAITING, "the sink returned 307")


async def test_a_server_that_hangs_is_left(world: World, receiver: Receiver) -> None:
    outward = GuardedSender(("127.0.0.0/8",), seconds=0.5)
    stand = Stand(world, outward)
    receiver.hangs = True
    sink = await stand.sink(receiver.url)
    await stand.notifications.test_sink(stand.world.admin, sink.id)
    await stand.sending.deliver()
    ((state, _, error),) = await stand.states()
    assert state is DeliveryState.WAITING
    assert error.startswith("127.0.0.1 did not answer within")
    await outward.close()


async def test_private_addresses_are_refused_unless_allowed(world: World) -> None:
    """Also those that a name resolves to; the path of the URL may be secret and is not shown."""
    outward = GuardedSender()
    stand = Stand(world, outward)
    for url in ("http://127.0.0.1:1/secret", "http://localhost:1/secret", "http://[::1]/secret"):
        sink = await stand.sink(url)
        await stand.notifications.test_sink(world.admin, sink.id)
        await stand.sending.deliver()
    states = await stand.states()
    assert len(states) == 3
    assert all("private address" in error and "secret" not in error for _, _, error in states)
    await outward.close()


async def test_chats_get_their_own_shape(stand: Stand, receiver: Receiver) -> None:
    """Names from elsewhere make no links and no mentions."""
    for name, type in (("slack", SlackSink), ("teams", TeamsSink)):
        draft = SinkDraft(f"<!channel> {name}", type(receiver.url))
        sink, secret = await stand.sinks.upsert(stand.world.admin, draft)
        assert secret is None
        await stand.notifications.test_sink(stand.world.admin, sink.id)
    await stand.sending.deliver()
    bodies = [orjson.loads(body) for _, _, body in receiver.got]
    slack = next(one for one in bodies if "text" in one)
    teams = next(one for one in bodies if "type" in one)
    assert slack["text"] == "A test of the sink &lt;!channel&gt; slack"
    assert teams["attachments"][0]["content"]["type"] == "AdaptiveCard"


@pytest.mark.parametrize(
    ("type", "path", "state"),
    [
        (GithubSink, "/repos/example/fleet/statuses/{sha}", "failure"),
        (GitlabSink, "/projects/example%2Ffleet/statuses/{sha}", "failed"),
    ],
)
async def test_commits_get_the_state_of_each_service(
    stand: Stand, receiver: Receiver, type: type[CommitSink], path: str, state: str
) -> None:
    world = stand.world
    repository = await world.repository("https://git.example.org/example/fleet.git")
    draft = SinkDraft("s", type(repository.id, "t0ken", receiver.url))
    await stand.sinks.upsert(world.admin, draft)
    service = await world.service(await world.cluster(), repository)
    async with world.deps.store.write() as tx:
        await tx[ServiceStore].change(service.id, commit_sha="a" * 40)
    await world.report(service, Phase.FAILED, (Problem("no such image"),))
    await stand.send()
    ((got, headers, body),) = receiver.got
    event = orjson.loads(body)
    assert got == path.format(sha="a" * 40).replace("%2F", "/")
    assert event["state"] == state
    assert "towline/dev/shop" in (event.get("context"), event.get("name"))
    assert "t0ken" in (headers.get("private-token", "") + headers.get("authorization", ""))


async def test_audit_rows_are_forwarded_from_now_on_without_loss(
    stand: Stand, receiver: Receiver
) -> None:
    """Unsent rows are sent later; nothing is left out, nothing comes out of order."""
    await stand.world.clusters.create(stand.world.admin, ClusterChange(name="before"))
    await stand.sink(receiver.url, audit=(AuditKind.CHANGE,))
    receiver.answers = [web.Response(status=503)]
    for name in ("one", "two"):
        await stand.world.clusters.create(stand.world.admin, ClusterChange(name=name))
        await stand.sending.forward_audit()
        await stand.world.clock.advance(10)
    await stand.sending.forward_audit()
    batches = [orjson.loads(body) for _, _, body in receiver.got][1:]
    rows = [row for batch in batches for row in batch["data"]]
    assert [row["target"] for row in rows] == ["sink", "one", "two"]
    assert [row["number"] for row in rows] == [2, 3, 4]


async def test_a_disconnect_and_its_reconnect_are_announced_once(stand: Stand) -> None:
    cluster = await stand.world.cluster()
    await stand.world.clock.advance(100)
    for _ in range(3):
        await stand.watch.check_clusters()
    async with stand.world.deps.store.write() as tx:
        await tx[ClusterStore].change(cluster.id, pinged_at=stand.world.clock.now())
    for _ in range(3):
        await stand.watch.check_clusters()
    assert await stand.kinds() == [NotificationKind.CLUSTER_AWAY, NotificationKind.CLUSTER_BACK]


async def test_a_token_of_an_agent_that_ends_soon_is_told_once(stand: Stand) -> None:
    """And again after a renewal."""
    cluster, now = await stand.world.cluster(), stand.world.clock.now()
    for days in (8, 6, 5, 30, 6):
        async with stand.world.deps.store.write() as tx:
            ends = now + timedelta(days=days)
            await tx[ClusterStore].change(cluster.id, agent_token_expires_at=ends)
        await stand.watch.check_agent_tokens()
    assert await stand.kinds() == [NotificationKind.TOKEN_EXPIRING] * 2


async def test_secrets_are_never_shown_and_do_not_follow_to_another_receiver(
    stand: Stand, receiver: Receiver
) -> None:
    sink = await stand.sink(f"{receiver.url}/secret-path")
    first = stand.secret
    assert first is not None and first.encode() not in sink.sealed
    assert "secret-path" not in repr(sink) and sink.host == "127.0.0.1"
    await stand.sink(f"{receiver.url}/elsewhere")
    assert stand.secret not in (None, first)


async def test_sinks_follow_the_scope_of_the_caller(stand: Stand) -> None:
    """An editor of a project has sinks there; the trail is forwarded by who may read all of it."""
    editor = person(Role.EDITOR, "eve", Scope(f"project:{DEFAULT_PROJECT}"))
    own = SinkDraft("own", SlackSink("https://hooks.example.org/x"), DEFAULT_PROJECT)
    sink, _ = await stand.sinks.upsert(editor, own)
    whole = SinkDraft("whole", SlackSink("https://hooks.example.org/x"))
    with pytest.raises(Forbidden):
        await stand.sinks.upsert(editor, whole)
    theirs, _ = await stand.sinks.upsert(stand.world.admin, whole)
    with pytest.raises(NotFound):
        await stand.sinks.get(editor, theirs.id)
    with pytest.raises(Conflict, match="already used"):
        await stand.sinks.upsert(editor, whole)
    with pytest.raises(Forbidden):
        await stand.sinks.upsert(
            person(Role.EDITOR),
            SinkDraft("siem", SyslogSink("syslog+tls://x.org"), audit=(AuditKind.CHANGE,)),
        )
    page = await stand.sinks.page(editor, PageQuery())
    assert [one.id for one in page.items] == [sink.id]


@pytest.mark.parametrize(
    ("router", "said"),
    [
        (RouterDraft("r", RouterRule(("service.fail",))), "is not one of"),
        (RouterDraft("r", RouterRule(sinks=("absent",))), "sink absent does not exist"),
    ],
)
async def test_routers_that_cannot_work_are_refused(
    stand: Stand, router: RouterDraft, said: str
) -> None:
    with pytest.raises(Invalid, match=said):
        await stand.routers.upsert(stand.world.admin, router)


async def test_old_notifications_are_deleted(stand: Stand, receiver: Receiver) -> None:
    sink = await stand.sink(receiver.url)
    await stand.notifications.test_sink(stand.world.admin, sink.id)
    await stand.world.clock.advance(timedelta(days=91).total_seconds())
    await stand.routing.forget()
    assert await stand.kinds() == [] and await stand.states() == []
