"""What people hear of a pipeline: a gate that waits, and what becomes of the release."""

from controlplane.domain.notifications import NotificationKind
from controlplane.ports import PageQuery
from controlplane.usecases.notification_routing import NotificationRouting
from tests.integration.controlplane.conftest import World
from tests.integration.controlplane.test_pipelines import Line


async def told(world: World) -> dict[NotificationKind, str]:
    """The subjects of what was routed, by kind."""
    await NotificationRouting(world.deps).route()
    async with world.deps.store.read() as tx:
        page = await tx.notifications.page(PageQuery())
    return {one.kind: one.subject for one in page.items if one.pipeline_id}


async def test_a_waiting_gate_and_a_verified_stage_are_told(world: World) -> None:
    line = await Line.make(world)
    await line.push("1")
    before = await told(world)
    assert before[NotificationKind.GATE_WAITING].startswith("pipeline shop: ")
    await line.approve()
    await world.report(line.prod)
    await line.settle()
    assert NotificationKind.PROMOTION_DONE in await told(world)
