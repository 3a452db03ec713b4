"""Deployments of autonomous agents in the ledger: once each, in their own order, on each store."""

from datetime import UTC, datetime, timedelta
from itertools import count

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from controlplane.agents.operations.report_batch import mirrored_id
from controlplane.agents.operations.report_handlers import AUTONOMOUS_ACTOR
from controlplane.authorization import SYSTEM, ResourceKind
from controlplane.platform.bus.memory import MemoryBus
from controlplane.platform.context import OperationContext
from controlplane.platform.ports import Store
from controlplane.reports.ports import DeploymentStore, ReportFilter
from controlplane.secrets.backends.envelope import EnvelopeSealer
from controlplane.services.model.ledger import LedgerEntry, LedgerStage
from controlplane.services.ports import LedgerStore, ServiceStore
from core.identity import local_id
from core.spec.reports.local_services import LocalServiceReport
from core.spec.reports.report import Report
from core.spec.status import Phase, SyncStatus
from tests.fakes.clock import FakeClock
from tests.fakes.manifests import FakeManifests
from tests.integration.controlplane.conftest import World

START = datetime(2025, 12, 31, tzinfo=UTC)
_NAMES = count()
EVERYTHING = SYSTEM.policy.visible(ResourceKind.SERVICE)


def moment(sequence: int) -> datetime:
    return START + timedelta(hours=sequence)


def digest(sequence: int) -> str:
    return f"sha256:{sequence:064x}"


class Agent:
    """An autonomous agent that reports what it deployed."""

    def __init__(self, store: Store) -> None:
        clock, manifests = FakeClock(), FakeManifests()
        deps = OperationContext(store, MemoryBus(), clock, manifests, EnvelopeSealer(b"k" * 32))
        self.world, self.store, self.number = World(deps, manifests, clock), store, 0

    async def join(self) -> None:
        self.cluster = (await self.world.cluster(f"far-{next(_NAMES)}")).id
        self.reported_id = local_id(self.cluster, "shop")
        self.service = mirrored_id(self.cluster, self.reported_id)

    def deployed(self, sequence: int) -> Report:
        body = LocalServiceReport(
            self.reported_id,
            "shop",
            "shop",
            "https://git.example/fleet.git",
            "main",
            "shop",
            commit=f"{sequence:040x}",
            digest=digest(sequence),
            sequence=sequence,
        )
        return self._report(sequence, body)

    def healthy(self, sequence: int) -> Report:
        status = SyncStatus(self.reported_id, sequence, digest(sequence), Phase.HEALTHY)
        return self._report(sequence + 0.5, status)

    def _report(self, hours: float, body: LocalServiceReport | SyncStatus) -> Report:
        self.number += 1
        return Report(self.number, START + timedelta(hours=hours), body)

    async def send(self, *reports: Report) -> None:
        await self.world.agents.record_reports(self.cluster, list(reports))

    async def ledger(self, stage: LedgerStage) -> list[LedgerEntry]:
        async with self.store.read() as tx:
            return await tx[LedgerStore].select(service_id=self.service, stage=stage)

    async def at(self, time: datetime) -> list[int]:
        """The deployments that stood at a moment."""
        within = ReportFilter(service_id=self.service)
        async with self.store.read() as tx:
            found = await tx[DeploymentStore].at(time, within, EVERYTHING, 10)
        return [deployment.sequence for deployment in found]


async def test_an_agent_hands_over_deployments_made_while_disconnected(store: Store) -> None:
    """Commit, own time, actor and result of both; a repeated hand-over adds nothing."""
    agent = Agent(store)
    await agent.join()
    reports = [agent.deployed(1), agent.healthy(1), agent.deployed(2), agent.healthy(2)]
    await agent.send(*reports)
    await agent.send(*reports)
    await agent.send(agent.deployed(2))
    rendered = await agent.ledger(LedgerStage.RENDERED)
    assert [(one.sha, one.at, one.actor) for one in rendered] == [
        (f"{n:040x}", moment(n), AUTONOMOUS_ACTOR) for n in (1, 2)
    ]
    healthy = await agent.ledger(LedgerStage.HEALTHY)
    assert [(one.sequence, one.sha) for one in healthy] == [
        (1, f"{1:040x}"),
        (2, f"{2:040x}"),
    ]
    async with store.read() as tx:
        within = ReportFilter(service_id=agent.service)
        figures = await tx[DeploymentStore].figures(START, moment(9), within, EVERYTHING)
    assert (figures.counts.begun, figures.counts.healthy) == (2, 2)
    assert await agent.at(moment(1) + timedelta(minutes=59)) == [1]
    assert await agent.at(moment(2)) == [2]


@settings(
    max_examples=15,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(order=st.lists(st.integers(1, 5), min_size=1, max_size=12), batched=st.booleans())
@example(order=[1, 2, 4, 3], batched=True)
async def test_any_order_and_any_repetition_give_one_history(
    store: Store, order: list[int], batched: bool
) -> None:
    """The newest state stays, and each moment shows the deployment of its own time."""
    agent = Agent(store)
    await agent.join()
    reports = [agent.deployed(sequence) for sequence in order]
    for part in [reports] if batched else [[report] for report in reports]:
        await agent.send(*part)
    rendered = await agent.ledger(LedgerStage.RENDERED)
    assert sorted(one.sequence for one in rendered) == sorted(set(order))
    async with store.read() as tx:
        service = await tx[ServiceStore].get(agent.service)
    assert service is not None
    assert (service.desired.generation, service.desired.digest) == (max(order), digest(max(order)))
    for hours in range(1, 7):
        stood = [sequence for sequence in set(order) if sequence <= hours]
        assert await agent.at(moment(hours)) == ([max(stood)] if stood else [])
