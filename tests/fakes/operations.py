"""Operations over the store in memory: what a test gives, does, and finds afterwards."""

from dataclasses import dataclass
from typing import Any, TypeVar

from controlplane.clusters.model.cluster import Cluster
from controlplane.platform.batch import BatchedBus, BatchedStore
from controlplane.platform.bus.memory import MemoryBus
from controlplane.platform.context import OperationContext
from controlplane.platform.ports import ReadableRows, Wake
from controlplane.platform.store.rows import TableRows
from controlplane.repositories.model.repository import Repository
from controlplane.secrets.backends.envelope import EnvelopeSealer
from controlplane.services.model.ledger import LedgerEntry
from controlplane.services.model.service import Service
from controlplane.services.ports import LedgerStore, ServiceStore
from controlplane.store.repositories import REPOSITORIES
from core.identity import ClusterId, RepositoryId, ServiceId
from core.json_object import JsonMapping
from tests.fakes.audit_rows import audit_rows
from tests.fakes.clock import START, FakeClock
from tests.fakes.manifests import FakeManifests
from tests.fakes.memory_store.store import MemoryStore

T = TypeVar("T")
_PORTS: dict[Any, type[Any]] = {
    **{make.kind: port for port, make in REPOSITORIES.items() if isinstance(make, TableRows)},
    Service: ServiceStore,
}


class RecordingBus(MemoryBus):
    """A bus that also lists all publications in their order."""

    def __init__(self) -> None:
        super().__init__()
        self.published: list[Wake] = []

    def publish(self, topic: str, key: str = "") -> None:
        self.published.append((topic, key))
        super().publish(topic, key)


@dataclass(frozen=True)
class MemoryOperations:
    """The ports of operations under test: `context` is what an operation takes."""

    context: OperationContext
    store: MemoryStore
    bus: RecordingBus
    manifests: FakeManifests
    clock: FakeClock

    async def given(self, *rows: Any) -> None:
        """Adds rows of any kind, without audit entries and publications."""
        async with self.store.write() as tx:
            for row in rows:
                await tx[_PORTS[type(row)]].add(row)

    async def row(self, port: type[ReadableRows[T]], id: str) -> T | None:
        """Returns a row as it is now; None: there is none."""
        async with self.store.read() as tx:
            return await tx[port].get(id)

    async def rows(self, port: type[ReadableRows[T]], **equals: Any) -> list[T]:
        """Returns rows as they are now."""
        async with self.store.read() as tx:
            return await tx[port].select(**equals)

    async def audited(self) -> list[tuple[str, str, str]]:
        """Returns actor, action and target of all audit entries, oldest first."""
        async with self.store.read() as tx:
            entries = await audit_rows(tx)
        return [(entry.actor, entry.action, entry.target) for entry in entries]

    async def audit_details(self) -> list[tuple[str, JsonMapping]]:
        """Returns action and detail of all audit entries, oldest first."""
        async with self.store.read() as tx:
            entries = await audit_rows(tx)
        return [(entry.action, entry.detail) for entry in entries]

    async def ledger(self) -> list[LedgerEntry]:
        """Returns all entries of the deployment ledger, oldest first."""
        async with self.store.read() as tx:
            return await tx[LedgerStore].select()

    @property
    def published(self) -> list[Wake]:
        """All publications, oldest first."""
        return self.bus.published


def operations_over_memory() -> MemoryOperations:
    """Makes an empty store, and all other ports as fakes."""
    store, bus, manifests, clock = MemoryStore(), RecordingBus(), FakeManifests(), FakeClock()
    sealer = EnvelopeSealer(b"k" * 32)
    context = OperationContext(BatchedStore(store), BatchedBus(bus), clock, manifests, sealer)
    return MemoryOperations(context, store, bus, manifests, clock)


def make_cluster(handle: str, **columns: Any) -> Cluster:
    """A cluster whose id is its handle."""
    return Cluster(ClusterId(handle), handle, handle, START, START, **columns)


def make_repository(id: str, **columns: Any) -> Repository:
    """A repository on a server of its own."""
    url = columns.pop("url", f"https://{id}.example.org/fleet.git")
    return Repository(RepositoryId(id), url, START, START, **columns)


def make_service(name: str, cluster: Cluster, **columns: Any) -> Service:
    """A service in the namespace of its name; its id is `<cluster>-<name>`."""
    id = ServiceId(f"{cluster.id}-{name}")
    return Service(id, cluster.id, None, name, name, START, START).changed(**columns)
