"""Compares a global service on 500 clusters with 500 separate services."""

import asyncio
import tempfile
from dataclasses import replace
from pathlib import Path
from time import perf_counter

from bench.report import BenchReport
from controlplane.authorization import SYSTEM
from controlplane.bridges import SERVICE_PARTS
from controlplane.clusters.operations.clusters import ClusterChange, Clusters
from controlplane.generators.model.global_service import GlobalService
from controlplane.generators.operations.global_services import GlobalChange, GlobalServices
from controlplane.generators.operations.reconciler import GeneratorReconciler
from controlplane.platform.bus.memory import MemoryBus
from controlplane.platform.context import OperationContext
from controlplane.platform.store.engine import make_engine, sqlite_url
from controlplane.platform.store.transaction import SqlStore
from controlplane.repositories.operations import RepositoryChange, RepositoryOperations
from controlplane.secrets.backends.envelope import EnvelopeSealer
from controlplane.services.operations.services import ServiceChange, Services
from controlplane.store.migrate import migrate
from controlplane.store.repositories import REPOSITORIES
from core.runtime.clock import SystemClock
from tests.fakes.manifests import FakeManifests

CLUSTERS = 500
RUNS = 2


class GlobalServiceBench:
    """Clusters on SQLite, a repository, and the operations to compare."""

    def __init__(self, store: SqlStore) -> None:
        sealer = EnvelopeSealer(b"k" * 32)
        self.deps = OperationContext(store, MemoryBus(), SystemClock(), FakeManifests(), sealer)
        self.targets = GeneratorReconciler(self.deps)
        self.globals = GlobalServices(self.deps, self.targets)
        self.services = Services(self.deps, SERVICE_PARTS)
        self.ids: list[str] = []
        self.change = ServiceChange()

    async def fill(self) -> None:
        """Registers the clusters."""
        change = RepositoryChange(url="https://git.example.org/fleet.git")
        repository = await RepositoryOperations(self.deps).create(SYSTEM, change)
        clusters = Clusters(self.deps)
        for number in range(CLUSTERS):
            made, _ = await clusters.create(SYSTEM, ClusterChange(name=f"c{number}"))
            self.ids.append(made.id)
        self.change = ServiceChange(
            namespace="x", repository_id=repository.id, ref="main", folder="x"
        )

    async def one_by_one(self, name: str) -> tuple[float, float]:
        """Seconds to create a service in each cluster, and to update all of them."""
        change = replace(self.change, name=name)
        start = perf_counter()
        made = [await self.services.create(SYSTEM, id, None, change) for id in self.ids]
        middle = perf_counter()
        for service in made:
            await self.services.update(SYSTEM, service.id, ServiceChange(ref="next"))
        return middle - start, perf_counter() - middle

    async def as_one(self, name: str) -> tuple[float, float, float]:
        """Seconds to create, to update, and to evaluate an unchanged global service."""
        template = replace(self.change, name=name)
        change = GlobalChange(name=name, template=template)
        start = perf_counter()
        created = await self.globals.create(SYSTEM, change)
        await self._read_service(created)
        made = perf_counter()
        change = GlobalChange(template=ServiceChange(ref="next"))
        await self.globals.update(SYSTEM, created.id, change)
        await self._read_service(created)
        changed = perf_counter()
        await self._read_service(created)
        return made - start, changed - made, perf_counter() - changed

    async def _read_service(self, service: GlobalService) -> None:
        plan = await self.targets.reconcile(f"{service.kind.value}/{service.id}")
        assert plan is not None and not plan.problems


async def measure(folder: Path) -> None:
    """Measures both alternately."""
    engine = make_engine(sqlite_url(folder))
    await migrate(engine)
    store = SqlStore(engine, REPOSITORIES)
    stand = GlobalServiceBench(store)
    await stand.fill()
    single = [await stand.one_by_one(f"single-{n}") for n in range(RUNS)]
    whole = [await stand.as_one(f"global-{n}") for n in range(RUNS)]
    await store.close()
    report = BenchReport("global_services")
    report.add(
        f"global service reaches {CLUSTERS} clusters",
        [run[0] for run in whole],
        "s",
        baseline="services made one by one",
        baseline_values=[run[0] for run in single],
        goal=0.5,
    )
    report.add(
        f"changed template reaches {CLUSTERS} clusters",
        [run[1] for run in whole],
        "s",
        baseline="services changed one by one",
        baseline_values=[run[1] for run in single],
        goal=0.5,
    )
    report.add(
        f"evaluate {CLUSTERS} unchanged clusters",
        [run[2] for run in whole],
        "s",
        baseline="services changed one by one",
        baseline_values=[run[1] for run in single],
        goal=0.05,
    )
    report.write()


def main() -> None:
    """Runs the measurements in a temporary folder."""
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(measure(Path(folder)))


if __name__ == "__main__":
    main()
