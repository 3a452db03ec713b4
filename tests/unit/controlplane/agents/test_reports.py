"""Reports of agents, committed to the store in memory."""

from collections.abc import Collection

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from controlplane.agents.operations.agents import AgentOperations
from controlplane.agents.operations.commands import AgentCommands
from controlplane.bridges import SERVICE_PARTS
from controlplane.clusters.ports import CommandStore
from controlplane.platform.context import SERVICE
from controlplane.reports.store.deployments import DESIRED_STAGES
from controlplane.services.model.ledger import LedgerStage
from controlplane.services.model.service import Service
from controlplane.services.operations.services import Services
from controlplane.services.ports import LedgerStore, ServiceStore
from core.errors import Unavailable
from core.spec.bundle import Attestation
from core.spec.input_checks import CheckResult, InputCheck, InputKind, InputVerdict
from core.spec.objects import ObjectRef
from core.spec.reports.commands import CommandAnswer, CommandOutcome
from core.spec.reports.report import Report
from core.spec.statements.attestation import Signer
from core.spec.statements.orders import OrderRequest
from core.spec.status import Phase, SyncStatus
from core.spec.sync import ObjectSelection
from gitcache.render.signing import RenderSigner
from tests.fakes.actors import EDITOR
from tests.fakes.clock import START
from tests.fakes.operations import (
    MemoryOperations,
    make_cluster,
    make_service,
    operations_over_memory,
)

CLUSTER = make_cluster("eu-1")
SHOP: Service = make_service("shop", CLUSTER, generation=2, digest="sha256:a")


@pytest.fixture
async def world() -> MemoryOperations:
    operations = operations_over_memory()
    await operations.given(CLUSTER, SHOP)
    return operations


async def test_a_status_is_in_the_ledger_once_for_each_generation_and_phase(
    world: MemoryOperations,
) -> None:
    agents = AgentOperations(world.context)
    statuses = (
        (1, Phase.HEALTHY),
        (2, Phase.APPLIED),
        (2, Phase.HEALTHY),
        (2, Phase.HEALTHY),
        (2, Phase.HEALTHY),
        (2, Phase.DEGRADED),
        (2, Phase.HEALTHY),
    )
    for number, (generation, phase) in enumerate(statuses, 1):
        body = SyncStatus(SHOP.id, generation, "sha256:a", phase)
        await agents.record_reports(CLUSTER.id, [Report(number, START, body)])
    async with world.store.read() as tx:
        entries = await tx[LedgerStore].select()
    assert [(entry.sequence, entry.stage) for entry in entries] == [
        (1, LedgerStage.HEALTHY),
        (2, LedgerStage.APPLIED),
        (2, LedgerStage.HEALTHY),
        (2, LedgerStage.DEGRADED),
        (2, LedgerStage.HEALTHY),
    ]


@pytest.mark.parametrize(
    ("outcome", "reason", "message"),
    [
        (
            CommandOutcome.SUCCEEDED,
            "",
            "partial sync of ConfigMap shop/a, ConfigMap shop/b, ConfigMap shop/c, "
            "ConfigMap shop/d, ConfigMap shop/e and 1 more succeeded",
        ),
        (CommandOutcome.REFUSED, "upgrade the agent", "and 1 more refused: upgrade the agent"),
    ],
)
async def test_a_sync_of_objects_is_in_the_ledger_and_no_deployment(
    outcome: CommandOutcome, reason: str, message: str, world: MemoryOperations
) -> None:
    objects = tuple(ObjectRef("", "v1", "ConfigMap", "shop", name) for name in "abcdef")
    await AgentCommands(world.context).sync_objects(EDITOR, SHOP.id, ObjectSelection(objects))
    (command,) = await world.rows(CommandStore)
    before = await world.rows(ServiceStore)
    agents = AgentOperations(world.context)
    answer = CommandAnswer(command.id, outcome, reason)
    for number in (1, 2):
        await agents.record_reports(CLUSTER.id, [Report(number, START, answer)])
    async with world.store.read() as tx:
        (entry,) = await tx[LedgerStore].select()
    assert entry.stage is LedgerStage.OBJECTS_SYNCED and entry.actor == EDITOR.email
    assert entry.message.endswith(message)
    assert (entry.detail["result"], len(entry.detail["objects"])) == (outcome.value, 6)
    assert await world.rows(ServiceStore) == before
    assert entry.stage not in DESIRED_STAGES


@pytest.mark.parametrize("outcome", list(CommandOutcome))
async def test_the_end_of_a_sync_is_told_to_those_who_see_the_service(
    outcome: CommandOutcome, world: MemoryOperations
) -> None:
    """Until then they see that a sync is requested, also if it changes nothing else."""
    await Services(world.context, SERVICE_PARTS).sync(EDITOR, SHOP.id)
    (command,) = await world.rows(CommandStore)
    world.published.clear()
    report = Report(1, START, CommandAnswer(command.id, outcome, ""))
    await AgentOperations(world.context).record_reports(CLUSTER.id, [report])
    assert (SERVICE, SHOP.id) in world.published


async def test_orders_that_are_not_all_signed_are_refused(world: MemoryOperations) -> None:
    """Else some messages go out without an order, and the agent refuses them."""

    class Forgetful(RenderSigner):
        def sign_orders(self, requests: Collection[OrderRequest]) -> list[Attestation]:
            return super().sign_orders(requests)[:-1]

    requests = [OrderRequest(CLUSTER.id, id, 1, "sha256:a") for id in ("s", "t")]
    agents = AgentOperations(world.context)
    assert await agents.sign_orders(requests) == []
    key = Signer(Ed25519PrivateKey.generate())
    world.manifests.signer = Forgetful(key, world.clock)
    with pytest.raises(Unavailable, match="signed 1 of 2 orders"):
        await agents.sign_orders(requests)
    world.manifests.signer = RenderSigner(key, world.clock)
    assert len(await agents.sign_orders(requests)) == 2


async def test_the_checks_of_an_agent_stay_until_it_reports_others(world: MemoryOperations) -> None:
    """A restarted agent reports none before it syncs again."""
    agents = AgentOperations(world.context)
    check = InputCheck(InputKind.BUNDLE, "sha256:a", CheckResult.VERIFIED, "signed by the key k")
    verdict = InputVerdict("sha256:a", START, (check,))
    for number, inputs in enumerate((verdict, None, None), 1):
        body = SyncStatus(SHOP.id, 2, "sha256:a", Phase.HEALTHY, inputs=inputs)
        await agents.record_reports(CLUSTER.id, [Report(number, START, body)])
    service = await world.row(ServiceStore, SHOP.id)
    assert service is not None and service.observed.inputs == verdict
