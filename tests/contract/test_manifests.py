"""Exports of an installation with all kinds, between stores of different implementations."""

from controlplane.kinds import all_kinds
from controlplane.manifests.model.documents import Source
from controlplane.manifests.model.plan import ApplyOptions, ManifestAction
from controlplane.manifests.operations.manifests import Manifests
from controlplane.platform.batch import BatchedBus, BatchedStore
from controlplane.platform.bus.memory import MemoryBus
from controlplane.platform.context import OperationContext
from controlplane.platform.store.transaction import SqlStore
from controlplane.secrets.backends.envelope import EnvelopeSealer
from tests.fakes.actors import ADMIN
from tests.fakes.clock import FakeClock
from tests.fakes.manifest_examples import WITHOUT_SECRETS
from tests.fakes.manifest_world import kind_operations, manifest_world
from tests.fakes.manifests import FakeManifests


async def test_an_export_applies_to_an_empty_database_and_gives_itself(
    sql_store: SqlStore,
) -> None:
    world = manifest_world()
    assert (await world.apply(WITHOUT_SECRETS)).problems == ()
    exported = await world.export()
    store, bus = BatchedStore(sql_store), BatchedBus(MemoryBus())
    sealer = EnvelopeSealer(b"k" * 32)
    context = OperationContext(store, bus, FakeClock(), FakeManifests(), sealer)
    manifests = Manifests(context, all_kinds(kind_operations(context)))
    sources = [Source("fleet.yaml", exported)]
    assert (await manifests.apply(ADMIN, sources, ApplyOptions())).problems == ()
    assert await manifests.export(ADMIN) == exported
    again = await manifests.apply(ADMIN, sources, ApplyOptions())
    assert {item.action for item in again.items} == {ManifestAction.UNCHANGED}
