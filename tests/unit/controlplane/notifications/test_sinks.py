"""Operations on notification sinks, routers and deliveries."""

from dataclasses import replace
from typing import Any

import pytest

from controlplane.access.model.bindings import Project
from controlplane.audit.model.chains import AuditKind
from controlplane.authorization import ANONYMOUS, Actor, Policy, Scope
from controlplane.authorization.roles import BuiltInRole
from controlplane.notifications.model.notification import (
    MAX_FILTERS,
    MAX_SINKS,
    DeliveryState,
    RouterFilter,
    RouterRule,
    Sink,
)
from controlplane.notifications.operations.notifications import Notifications
from controlplane.notifications.operations.routers import RouterDraft, Routers
from controlplane.notifications.operations.sinks import SinkDraft, Sinks, sink_settings
from controlplane.notifications.ports import (
    DeliveryStore,
    RouterStore,
    SinkStore,
)
from controlplane.notifications.sinks.github import GithubSink
from controlplane.notifications.sinks.slack import SlackSink
from controlplane.notifications.sinks.webhook import WebhookSink
from controlplane.platform.context import NOTIFY
from controlplane.platform.ports import PageQuery
from core.errors import Conflict, Forbidden, Invalid, NotFound, TowlineError, Unauthenticated
from tests.fakes.actors import ADMIN, EDITOR, NOBODY, VIEWER, person
from tests.fakes.clock import START
from tests.fakes.operations import MemoryOperations, make_repository, operations_over_memory

SHOP = Project("shop", "shop", START, START)
EDITOR_OF_SHOP = person(BuiltInRole.EDITOR, "sue", Scope("project:shop"))
HOOK = SinkDraft("hook", WebhookSink("https://hooks.example.org/a"))
SLACK = SinkDraft("slack", SlackSink("https://slack.example.org/a"))


def draft_of(name: str, project_id: str | None = None, **rule: Any) -> RouterDraft:
    return RouterDraft(name, RouterRule(**rule), project_id)


STATUS = SinkDraft("status", GithubSink("git", "token"))
GIT = make_repository("git")


@pytest.fixture
def world() -> MemoryOperations:
    return operations_over_memory()


@pytest.fixture
def notifications(world: MemoryOperations) -> Notifications:
    return Notifications(world.context)


@pytest.fixture
def sinks(world: MemoryOperations) -> Sinks:
    return Sinks(world.context)


@pytest.fixture
def routers(world: MemoryOperations) -> Routers:
    return Routers(world.context)


async def test_a_sink_is_created_with_a_signing_secret(
    world: MemoryOperations, sinks: Sinks
) -> None:
    """The store keeps it sealed, and only the host is shown."""
    sink, secret = await sinks.upsert(EDITOR, HOOK)
    assert await world.rows(SinkStore) == [sink]
    assert (sink.type, sink.host) == ("WEBHOOK", "hooks.example.org")
    assert secret is not None and secret.startswith("whsec_")
    assert secret.encode() not in sink.sealed
    settings = sink_settings(world.context.sealer, sink)
    assert settings == WebhookSink("https://hooks.example.org/a", secret)
    assert await world.audited() == [(EDITOR.email, "upsertNotificationSink", "hook")]


async def test_a_changed_sink_keeps_empty_settings(world: MemoryOperations, sinks: Sinks) -> None:
    """A new receiver gets a new signing secret."""
    sink, first = await sinks.upsert(EDITOR, HOOK)
    after, none = await sinks.upsert(EDITOR, replace(HOOK, settings=WebhookSink()))
    assert (after.id, none) == (sink.id, None)
    moved = replace(HOOK, settings=WebhookSink("https://other.example.org"))
    after, second = await sinks.upsert(EDITOR, moved)
    assert second not in (None, first) and after.host == "other.example.org"
    with pytest.raises(Conflict, match="type WEBHOOK"):
        await sinks.upsert(EDITOR, replace(SLACK, name="hook"))
    assert await world.rows(SinkStore) == [after]


@pytest.mark.parametrize(
    ("draft", "field"),
    [
        (replace(HOOK, name=""), "name"),
        (replace(HOOK, name="x" * 256), "name"),
        (replace(HOOK, settings=WebhookSink()), "url"),
        (replace(HOOK, settings=WebhookSink("ftp://example.org")), "url"),
        (replace(HOOK, settings=WebhookSink("https://a:b@example.org")), "url"),
        (replace(SLACK, audit=(AuditKind.CHANGE,)), "audit"),
        (replace(HOOK, audit=(AuditKind.CHANGE,), project_id="shop"), "audit"),
        (replace(STATUS, settings=GithubSink("git")), "token"),
        (replace(STATUS, settings=GithubSink("git", "x" * 5000)), "token"),
        (replace(STATUS, settings=GithubSink("git", "\n")), "token"),
        (replace(STATUS, settings=GithubSink("none", "token")), "repositoryId"),
    ],
)
async def test_an_invalid_sink_is_refused(
    world: MemoryOperations, sinks: Sinks, draft: SinkDraft, field: str
) -> None:
    await world.given(SHOP, GIT)
    with pytest.raises(Invalid) as error:
        await sinks.upsert(ADMIN, draft)
    assert error.value.field == field
    assert await world.rows(SinkStore) == [] and await world.audited() == []


async def test_audit_rows_are_forwarded_from_now_on_by_those_who_read_them(
    world: MemoryOperations, sinks: Sinks
) -> None:
    draft = replace(HOOK, audit=(AuditKind.CHANGE,))
    with pytest.raises(Forbidden, match="audit log"):
        await sinks.upsert(EDITOR, draft)
    await sinks.upsert(ADMIN, HOOK)
    sink, _ = await sinks.upsert(ADMIN, draft)
    assert sink.audit == (AuditKind.CHANGE,) and sink.sent["change"] >= 1
    async with world.store.write() as tx:
        await tx[SinkStore].change(sink.id, sent={**sink.sent, "change": 0})
    both = replace(HOOK, audit=(AuditKind.CHANGE, AuditKind.SIGN_IN))
    sink, _ = await sinks.upsert(ADMIN, both)
    assert sink.sent["change"] == 0, "entries that were not sent yet are still sent"
    sink, _ = await sinks.upsert(ADMIN, replace(HOOK, audit=()))
    assert sink.audit == ()


async def test_only_readers_of_the_audit_log_change_a_sink_that_gets_audit_rows(
    world: MemoryOperations, sinks: Sinks
) -> None:
    sink, _ = await sinks.upsert(ADMIN, replace(HOOK, audit=(AuditKind.CHANGE,)))
    moved = replace(HOOK, settings=WebhookSink("https://evil.example.org"))
    for change in (
        sinks.upsert(EDITOR, moved),
        sinks.upsert(EDITOR, replace(HOOK, audit=())),
        sinks.delete(EDITOR, sink.id),
    ):
        with pytest.raises(Forbidden, match="audit log"):
            await change
    assert await world.rows(SinkStore) == [sink]
    after, _ = await sinks.upsert(ADMIN, moved)
    assert (after.host, after.audit) == ("evil.example.org", (AuditKind.CHANGE,))


async def test_a_token_of_a_git_host_stays_with_the_host(
    world: MemoryOperations, sinks: Sinks
) -> None:
    other = make_repository("other")
    await world.given(GIT, other)
    sink, _ = await sinks.upsert(EDITOR, STATUS)
    assert (sink.repository_id, sink.host) == ("git", "git.example.org")
    for settings in (GithubSink("other"), GithubSink("git", api_url="https://api.example.org")):
        with pytest.raises(Invalid, match="must be set again") as error:
            await sinks.upsert(EDITOR, replace(STATUS, settings=settings))
        assert error.value.field == "token"
    moved = replace(STATUS, settings=GithubSink("other", "new"))
    after, _ = await sinks.upsert(EDITOR, moved)
    assert (after.repository_id, after.host) == ("other", "other.example.org")


async def test_a_commit_sink_needs_write_access_to_its_repository(
    world: MemoryOperations, sinks: Sinks
) -> None:
    await world.given(SHOP, GIT)
    with pytest.raises(Invalid) as error:
        await sinks.upsert(EDITOR_OF_SHOP, replace(STATUS, project_id="shop"))
    assert error.value.field == "repositoryId"
    grants = (*EDITOR_OF_SHOP.policy.grants, *VIEWER.policy.grants)
    reader = replace(EDITOR_OF_SHOP, policy=Policy(grants))
    with pytest.raises(Forbidden):
        await sinks.upsert(reader, replace(STATUS, project_id="shop"))
    assert await world.rows(SinkStore) == []


async def test_an_unused_sink_is_deleted(
    world: MemoryOperations, sinks: Sinks, routers: Routers
) -> None:
    sink, _ = await sinks.upsert(EDITOR, HOOK)
    router = await routers.upsert(EDITOR, draft_of("all", sinks=(sink.id,)))
    other = await routers.upsert(EDITOR, RouterDraft("other"))
    with pytest.raises(Conflict, match="still use this sink: all$"):
        await sinks.delete(EDITOR, sink.id)
    await routers.delete(EDITOR, router.id)
    assert await sinks.delete(EDITOR, sink.id) == sink
    assert await world.rows(SinkStore) == [] and await world.rows(RouterStore) == [other]
    actions = [action for _, action, _ in await world.audited()]
    assert actions[3:] == ["deleteNotificationRouter", "deleteNotificationSink"]


async def test_a_router_is_created_and_changed(
    world: MemoryOperations, sinks: Sinks, routers: Routers
) -> None:
    sink, _ = await sinks.upsert(EDITOR, HOOK)
    made = await routers.upsert(EDITOR, draft_of("r", events=(), sinks=(sink.id,) * 2))
    assert (made.rule.events, made.rule.sinks) == (("*",), (sink.id,))
    filters = (RouterFilter(regex="x" * 200),) * MAX_FILTERS
    draft = draft_of("r", events=("service.*",), filters=filters)
    after = await routers.upsert(EDITOR, draft)
    assert (after.id, after.rule.events, after.rule.sinks) == (made.id, ("service.*",), ())
    assert await world.rows(RouterStore) == [after]
    assert (await world.audited())[1:] == [(EDITOR.email, "upsertNotificationRouter", "r")] * 2


@pytest.mark.parametrize(
    ("draft", "field"),
    [
        (RouterDraft(" "), "name"),
        (draft_of("r", events=("nothing.*",)), "events"),
        (draft_of("r", events=("*",) * 51), "events"),
        (draft_of("r", filters=(RouterFilter(),) * (MAX_FILTERS + 1)), "filters"),
        (draft_of("r", filters=(RouterFilter(regex="x" * 201),)), "filters.regex"),
        (draft_of("r", filters=(RouterFilter(regex="("),)), "filters.regex"),
        (draft_of("r", filters=(RouterFilter(cluster_id="x" * 65),)), "filters.clusterId"),
        (draft_of("r", filters=(RouterFilter(service_id="x" * 65),)), "filters.serviceId"),
        (draft_of("r", filters=(RouterFilter(pipeline_id="x" * 65),)), "filters.pipelineId"),
        (draft_of("r", filters=(RouterFilter(labels="a in ("),)), "filters.labels"),
        (draft_of("r", sinks=("none",)), "routerSinks"),
        (draft_of("r", sinks=("commits",)), "routerSinks"),
    ],
)
async def test_an_invalid_router_is_refused(
    world: MemoryOperations, routers: Routers, draft: RouterDraft, field: str
) -> None:
    await world.given(Sink("commits", "commits", START, START, "GITHUB"))
    with pytest.raises(Invalid) as error:
        await routers.upsert(EDITOR, draft)
    assert error.value.field == field
    assert await world.rows(RouterStore) == [] and await world.audited() == []


async def test_a_router_has_at_most_20_different_sinks(
    world: MemoryOperations, routers: Routers
) -> None:
    ids = [f"{number:02}" for number in range(MAX_SINKS + 1)]
    await world.given(*(Sink(id, id, START, START, "SLACK") for id in ids))
    with pytest.raises(Invalid, match="at most 20 entries, not 21"):
        await routers.upsert(EDITOR, draft_of("r", sinks=tuple(ids)))
    made = await routers.upsert(EDITOR, draft_of("r", sinks=(*ids[1:], *ids[1:])))
    assert made.rule.sinks == tuple(ids[1:])


async def test_sinks_and_routers_are_seen_in_their_project(
    world: MemoryOperations, sinks: Sinks, routers: Routers
) -> None:
    """A hidden name is only known to be used."""
    await world.given(SHOP)
    hook, _ = await sinks.upsert(EDITOR, HOOK)
    own, _ = await sinks.upsert(EDITOR_OF_SHOP, replace(SLACK, project_id="shop"))
    router = await routers.upsert(EDITOR_OF_SHOP, RouterDraft("r", project_id="shop"))
    assert (await sinks.page(EDITOR_OF_SHOP, PageQuery())).items == (own,)
    assert (await routers.page(EDITOR_OF_SHOP, PageQuery())).items == (router,)
    assert (await sinks.page(VIEWER, PageQuery())).items == (hook, own)
    assert await sinks.get(VIEWER, None, "hook") == hook
    assert await routers.get(EDITOR_OF_SHOP, router.id) == router
    assert await routers.get(EDITOR_OF_SHOP, None, "r") == router
    for id, name in ((hook.id, None), (None, "hook"), ("none", None), (None, None)):
        with pytest.raises(NotFound):
            await sinks.get(EDITOR_OF_SHOP, id, name)
    with pytest.raises(Conflict, match="already used"):
        await sinks.upsert(EDITOR_OF_SHOP, replace(HOOK, project_id="shop"))
    with pytest.raises(Invalid, match="does not exist"):
        await routers.upsert(EDITOR_OF_SHOP, draft_of("r", project_id="shop", sinks=(hook.id,)))


async def test_a_sink_is_tested_and_a_delivery_is_sent_again(
    world: MemoryOperations, sinks: Sinks, notifications: Notifications
) -> None:
    sink, _ = await sinks.upsert(EDITOR, HOOK)
    delivery = await Notifications(world.context).test_sink(EDITOR, sink.id)
    assert (await notifications.deliveries(VIEWER, PageQuery())).items == (delivery,)
    (notification,) = (await notifications.page(VIEWER, PageQuery())).items
    assert notification.id == delivery.notification_id and "hook" in notification.subject
    failed = replace(delivery, state=DeliveryState.DEAD, attempts=12, error="410")
    async with world.store.write() as tx:
        await tx[DeliveryStore].put(replace(failed, finished_at=START))
    await world.clock.advance(1)
    again = await notifications.resend(EDITOR, delivery.id)
    assert again == replace(delivery, due_at=world.clock.now())
    assert await world.rows(DeliveryStore) == [again]
    actions = [action for _, action, _ in await world.audited()]
    assert actions[1:] == ["testNotificationSink", "resendNotification"]
    assert world.published == [(NOTIFY, "")] * 2


async def test_a_sink_of_commits_cannot_be_tested(
    world: MemoryOperations, sinks: Sinks, notifications: Notifications
) -> None:
    await world.given(GIT)
    sink, _ = await sinks.upsert(EDITOR, STATUS)
    with pytest.raises(Invalid, match="without a commit"):
        await Notifications(world.context).test_sink(EDITOR, sink.id)
    assert (await notifications.page(ADMIN, PageQuery())).items == ()
    assert world.published == []


CALLS = {
    "save_sink": lambda context, actor, ids: Sinks(context).upsert(actor, HOOK),
    "delete_sink": lambda context, actor, ids: Sinks(context).delete(actor, ids[0]),
    "test_sink": lambda context, actor, ids: Notifications(context).test_sink(actor, ids[0]),
    "save_router": lambda context, actor, ids: Routers(context).upsert(actor, RouterDraft("r")),
    "delete_router": lambda context, actor, ids: Routers(context).delete(actor, ids[1]),
    "resend": lambda context, actor, ids: Notifications(context).resend(actor, ids[2]),
}


@pytest.mark.parametrize("name", sorted(CALLS))
@pytest.mark.parametrize(
    ("actor", "error"),
    [(VIEWER, Forbidden), (NOBODY, NotFound), (ANONYMOUS, Unauthenticated)],
    ids=["viewer", "nobody", "anonymous"],
)
async def test_a_change_needs_write_access(
    world: MemoryOperations,
    sinks: Sinks,
    routers: Routers,
    name: str,
    actor: Actor,
    error: type[TowlineError],
) -> None:
    sink, _ = await sinks.upsert(EDITOR, HOOK)
    router = await routers.upsert(EDITOR, RouterDraft("r"))
    delivery = await Notifications(world.context).test_sink(EDITOR, sink.id)
    is_hidden = error is NotFound and name.startswith("save")
    with pytest.raises(Conflict if is_hidden else error):
        await CALLS[name](world.context, actor, (sink.id, router.id, delivery.id))
    assert await world.rows(SinkStore) == [sink] and await world.rows(RouterStore) == [router]
    assert await world.rows(DeliveryStore) == [delivery]
    assert len(await world.audited()) == 3


@pytest.mark.parametrize("name", sorted(CALLS.keys() - {"save_sink", "save_router"}))
async def test_a_missing_row_is_not_found(world: MemoryOperations, name: str) -> None:
    with pytest.raises(NotFound):
        await CALLS[name](world.context, ADMIN, ("none", "none", "none"))


async def test_a_sink_or_router_does_not_move_to_another_project(
    world: MemoryOperations, sinks: Sinks, routers: Routers
) -> None:
    """Leaving out the project changes nothing, and naming the same one neither."""
    await world.given(SHOP)
    sink, _ = await sinks.upsert(ADMIN, replace(HOOK, project_id="shop"))
    await routers.upsert(ADMIN, draft_of("all", sinks=(sink.id,)))
    with pytest.raises(Conflict, match="router 'all' cannot be moved to another project"):
        await routers.upsert(ADMIN, RouterDraft("all", project_id="shop"))
    with pytest.raises(Conflict, match="sink 'hook' cannot be moved to another project"):
        await sinks.upsert(ADMIN, replace(HOOK, project_id="bank"))
    for same in (None, "shop"):
        after, _ = await sinks.upsert(ADMIN, replace(HOOK, project_id=same))
        assert after.project_id == "shop"
