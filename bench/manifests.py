"""Measures applies of manifests on SQLite: `python -m bench.manifests`.

The figures are our own, in seconds: goals are upper limits on two cores. BENCH_SMALL=1 measures a
tenth of all documents, with the same goals.
"""

import asyncio
import os
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path

from bench.report import BenchReport
from controlplane.authorization import SYSTEM
from controlplane.kinds import all_kinds
from controlplane.manifests.model.documents import Source
from controlplane.manifests.model.plan import ApplyOptions, ManifestAction, ManifestPlan
from controlplane.manifests.operations.manifests import Manifests
from controlplane.platform.batch import BatchedBus, BatchedStore
from controlplane.platform.bus.memory import MemoryBus
from controlplane.platform.context import OperationContext
from controlplane.platform.store.engine import make_engine
from controlplane.platform.store.transaction import SqlStore
from controlplane.secrets.backends.envelope import EnvelopeSealer
from controlplane.store.repositories import REPOSITORIES
from core.runtime.clock import SystemClock
from tests import migrated
from tests.fakes.manifest_world import document, kind_operations
from tests.fakes.manifests import FakeManifests

SCALE = 10 if os.environ.get("BENCH_SMALL") else 1
DOCUMENTS, CLUSTERS, MANY = 1_000 // SCALE, 20, 10_000 // SCALE
URL = "https://git.example.org/fleet.git"
RUNS = 3


def services(numbers: Iterable[int], ref: str = "main") -> str:
    """Manifests of services, spread over the clusters."""
    spec = {"namespace": "shop", "repository": URL, "ref": ref, "folder": "shop"}
    return "".join(
        document(
            "Service",
            f"s{number}",
            {**spec, "configuration": {"number": str(number), "color": "blue"}},
            cluster=f"c{number % CLUSTERS}",
        )
        for number in numbers
    )


class ManifestBench:
    """An installation to which manifests are applied."""

    def __init__(self, store: SqlStore) -> None:
        sealer = EnvelopeSealer(b"k" * 32)
        context = OperationContext(
            BatchedStore(store), BatchedBus(MemoryBus()), SystemClock(), FakeManifests(), sealer
        )
        self.manifests = Manifests(context, all_kinds(kind_operations(context)))

    async def fill(self) -> None:
        """Creates the clusters and the repository of all services."""
        clusters = "".join(document("Cluster", f"c{number}") for number in range(CLUSTERS))
        await self.apply(clusters + document("GitRepository", URL))

    async def apply(self, text: str, *, dry_run: bool = False) -> ManifestPlan:
        """Applies one file."""
        options = ApplyOptions(dry_run=dry_run)
        plan = await self.manifests.apply(SYSTEM, [Source("fleet.yaml", text)], options)
        assert not plan.problems, plan.problems[0]
        return plan

    async def plan_s(self, text: str, action: ManifestAction) -> list[float]:
        """Seconds of several plans, all of whose items have this action."""

        async def plan() -> None:
            found = await self.apply(text, dry_run=True)
            assert {item.action for item in found.items} == {action}

        return [await seconds(plan) for _ in range(RUNS)]


async def seconds(work: Callable[[], Awaitable[object]]) -> float:
    """Seconds of one run."""
    begun = time.perf_counter()
    await work()
    return time.perf_counter() - begun


async def measure(folder: Path, report: BenchReport) -> None:
    """Measures all figures on one store."""
    store = SqlStore(make_engine(migrated.put_sqlite(folder)), REPOSITORIES)
    bench = ManifestBench(store)
    await bench.fill()
    new, changed = services(range(DOCUMENTS)), services(range(DOCUMENTS), "v2")
    title = f"{DOCUMENTS:,} documents, own"
    report.add(f"plan, new: {title}", await bench.plan_s(new, ManifestAction.CREATE), "s", goal=2)
    report.add(f"apply, new: {title}", [await seconds(lambda: bench.apply(new))], "s")
    planned = await bench.plan_s(changed, ManifestAction.UPDATE)
    report.add(f"plan, changed: {title}", planned, "s", goal=2)
    again = await bench.plan_s(new, ManifestAction.UNCHANGED)
    report.add(f"apply again: {title}", again, "s", goal=1)
    report.add(f"apply, changed: {title}", [await seconds(lambda: bench.apply(changed))], "s")
    for first in range(DOCUMENTS, MANY, 1_000):
        await bench.apply(services(range(first, min(first + 1_000, MANY))))
    few = services(range(10), "v3")
    took = await seconds(lambda: bench.apply(few))
    report.add(f"apply of 10 among {MANY:,}, own", [took], "s", goal=0.5)
    took = await seconds(lambda: bench.manifests.export(SYSTEM))
    report.add(f"export of {MANY:,}, own", [took], "s")
    await store.close()


def main() -> None:
    """Runs the measurements, prints and saves them."""
    report = BenchReport("manifests")
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(measure(Path(folder), report))
    report.write()


if __name__ == "__main__":
    main()
