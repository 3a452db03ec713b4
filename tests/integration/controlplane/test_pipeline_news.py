"""Notifications of a pipeline: waiting gates and finished releases."""

from controlplane.notifications.operations.routing import NotificationRouting
from controlplane.notifications.ports import NotificationStore
from controlplane.platform.notification import NotificationKind
from controlplane.platform.ports import PageQuery
from tests.integration.controlplane.conftest import World
from tests.integration.controlplane.test_pipelines import Line


async def announced(world: World) -> dict[NotificationKind, str]:
    """The subjects of what was routed, by kind."""
    await NotificationRouting(world.deps).route()
    async with world.deps.store.read() as tx:
        page = await tx[NotificationStore].page(PageQuery())
    return {one.kind: one.subject for one in page.items if one.pipeline_id}


async def test_waiting_gates_and_verified_stages_are_announced(world: World) -> None:
    line = await Line.make(world)
    await line.push("1")
    before = await announced(world)
    assert before[NotificationKind.GATE_WAITING].startswith("pipeline shop: ")
    await line.approve()
    await world.report(line.prod)
    await line.settle()
    assert NotificationKind.PROMOTION_DONE in await announced(world)
