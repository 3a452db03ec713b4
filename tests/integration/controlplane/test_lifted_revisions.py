"""Pipelines and revisions that are refused: very many of them, and some that were lifted."""

from controlplane.pipelines.model.state import KNOWN_BAD_LENGTH
from controlplane.pipelines.operations.drafts import EdgeDraft, PipelineDraft, StageDraft
from controlplane.services.model.quarantine import DeniedRevision
from controlplane.services.ports import DeniedRevisionStore
from core.spec.verification import Verification
from tests.integration.controlplane.conftest import World
from tests.integration.controlplane.test_holds import bad_digest, lift, push, verdict
from tests.integration.controlplane.test_pipelines import Line


async def make_line(world: World) -> Line:
    """dev → prod, where what is promoted has to prove itself."""
    cluster, repository = await world.cluster(), await world.repository()
    dev = await world.service(cluster, repository, "shop")
    prod = await world.service(cluster, repository, "prod", folder="shop")
    stage = StageDraft("prod", [prod.id], verification=Verification(900))
    draft = PipelineDraft("shop", [StageDraft("dev", [dev.id]), stage], [EdgeDraft("dev", "prod")])
    await world.pipelines.save(world.admin, draft)
    return Line(world, dev, prod)


async def test_a_lifted_bundle_is_promoted_again(world: World) -> None:
    """What the agent said of it before was about the first time."""
    line = await make_line(world)
    good = (await push(world, line.dev, "good")).desired.digest or ""
    await world.report(line.dev)
    await line.settle()
    await world.report(line.prod)
    await line.settle()
    await world.clock.advance(901)
    await push(world, line.dev, "bad")
    await world.report(line.dev)
    await line.settle()
    assert (await world.get(line.prod)).desired.digest == bad_digest()
    await verdict(world, line.prod, ok=False, instead=good)
    await line.settle()
    assert (await world.get(line.prod)).desired.digest == good
    await world.report(line.prod)
    await lift(world, bad_digest())
    await line.settle()
    await line.settle()
    assert (await world.get(line.prod)).desired.digest == bad_digest()
    assert bad_digest() not in (await line.view()).state.known_bad


async def test_a_pipeline_rests_however_many_revisions_are_refused(world: World) -> None:
    """It knows the newest; the others are refused where services would be given them."""
    line = await make_line(world)
    now = world.clock.now()
    async with world.deps.store.write() as tx:
        for number in range(KNOWN_BAD_LENGTH + 5):
            await tx[DeniedRevisionStore].add(
                DeniedRevision.of(f"sha256:{number:064}", None, "agent", "odd", now)
            )
    await line.settle()
    before = (await line.view()).row.version
    await line.settle()
    view = await line.view()
    assert (view.row.version, len(view.state.known_bad)) == (before, KNOWN_BAD_LENGTH)
