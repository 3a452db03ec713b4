"""Operations of agents. Each is bound to the cluster that the agent authenticated for."""

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta

import structlog

from controlplane.agents.operations.bundles import AgentBundles
from controlplane.agents.operations.desired_state import DesiredState, DesiredStateReader
from controlplane.agents.operations.jobs import sealed_for_agent
from controlplane.agents.operations.report_batch import ReportLimits
from controlplane.agents.operations.reports import AgentReports, ReportCommitter
from controlplane.agents.operations.sessions import (
    AgentConnected,
    AgentHello,
    ConnectionRecorder,
)
from controlplane.agents.operations.upgrades import AgentUpgrades
from controlplane.agents.ports import ClusterJobStore
from controlplane.clusters.model.commands import UPLOADED_DIGEST, Command, CommandKind, CommandState
from controlplane.clusters.ports import ClusterStore, CommandStore
from controlplane.platform.context import CLUSTER, OperationContext
from controlplane.platform.ports import Transaction
from controlplane.platform.retry import retry_operations
from controlplane.secrets.operations.service_secrets import StoredSecrets, sealed_values
from controlplane.secrets.ports import ServiceSecrets
from controlplane.services.model.ledger import LedgerEntry
from controlplane.services.model.service import Service
from controlplane.services.operations.fences import fence_of_job
from controlplane.services.ports import LedgerStore, ServiceStore
from core.errors import NotFound, TowlineError, Unavailable
from core.identity import ClusterId
from core.spec.bundle import Attestation, parse_bundle
from core.spec.jobs import JobSpec
from core.spec.reports.commands import CommandAnswer, CommandOutcome
from core.spec.reports.report import Report
from core.spec.sealed_secrets import SealedSecret
from core.spec.statements.orders import OrderRequest
from core.spec.statements.signing_keys import SigningIdentity

log = structlog.get_logger(__name__)

# Half of the valid range; a higher sequence from an agent cannot be genuine.
_MAX_AGENT_GENERATION = 1 << 30
_COMMAND_RETENTION, _JOB_RETENTION = timedelta(days=7), timedelta(days=30)


@retry_operations
class AgentOperations:
    """Operations of agents. `secrets` reads the secrets that the services' objects reference."""

    def __init__(
        self,
        context: OperationContext,
        secrets: ServiceSecrets | None = None,
        limits: ReportLimits | None = None,
    ) -> None:
        self._context = context
        self._bundles = AgentBundles(context)
        self._desired_state = DesiredStateReader(context.store)
        self._connections = ConnectionRecorder(context, self._desired_state)
        self._reports = ReportCommitter(context, limits or ReportLimits())
        self._secrets = secrets or StoredSecrets(context)
        self._upgrades = AgentUpgrades(context)

    async def record_connection(self, cluster_id: ClusterId, agent: AgentHello) -> AgentConnected:
        """Records that an agent connected, and returns its desired state. NotFound; Unavailable."""
        return await self._connections.record(cluster_id, agent)

    async def instances(self, cluster_ids: Collection[ClusterId]) -> Mapping[ClusterId, str]:
        """Ids of the agent instances that connected last, by cluster, on any replica."""
        if not cluster_ids:
            return {}
        async with self._context.store.read() as tx:
            instances = await tx[ClusterStore].column("agent_instance", cluster_ids)
        return {ClusterId(id): instance or "" for id, instance in instances.items()}

    async def record_liveness(
        self, last_seen: Mapping[ClusterId, datetime], offered: Sequence[LedgerEntry]
    ) -> None:
        """Stores when agents were last seen, and the desired states that were offered to them."""
        if not last_seen and not offered:
            return
        async with self._context.store.write() as tx:
            await tx[ClusterStore].change_each(
                {id: {"pinged_at": at} for id, at in last_seen.items()}
            )
            await tx[LedgerStore].append(offered)

    async def desired_state(
        self, cluster_id: ClusterId, service_ids: Collection[str] | None = None
    ) -> DesiredState:
        """Desired state of some or all services of a cluster, and the pending commands of its
        agent."""
        return await self._desired_state.of(cluster_id, service_ids)

    async def catch_up_generations(
        self, cluster_id: ClusterId, generations: Mapping[str, int], *, rewound: bool = False
    ) -> None:
        """Raises sequences that are lower than those the agent holds.

        This happens after the store was restored from a backup: the agent would ignore the older
        sequences. If the store was `rewound`, the same sequence may mean another state now.
        """
        async with self._context.store.write() as tx:
            for service in await tx[ServiceStore].of_clusters_with_deleted(cluster_id):
                held = generations.get(service.id, 0)
                is_behind = 0 < service.desired.generation < held + rewound
                if is_behind and 0 < held <= _MAX_AGENT_GENERATION and not service.mirrored:
                    log.warning("agent is ahead of the store", service=service.id, held=held)
                    await tx[ServiceStore].set_generation(service.id, held + 1)

    async def signing_identity(self) -> SigningIdentity:
        """The signing key that agents pin. Unavailable."""
        return await self._context.manifests.signing_identity()

    async def sign_orders(self, requests: Sequence[OrderRequest]) -> Sequence[Attestation]:
        """Has the render tier sign orders; none if nothing is signed. Unavailable."""
        orders = await self._context.manifests.sign_orders(requests)
        if orders and len(orders) != len(requests):
            raise Unavailable(f"the render tier signed {len(orders)} of {len(requests)} orders")
        return orders

    async def renew(self, attestation: Attestation) -> Attestation:
        """Has the render tier sign a statement of a former key again. Unavailable."""
        return await self._context.manifests.renew(attestation)

    async def job(self, cluster_id: ClusterId, id: str) -> JobSpec:
        """A job of the cluster with its secrets, encrypted for the agent.

        NotFound: the job was deleted. Conflict: the agent has no key.
        """
        async with self._context.store.read() as tx:
            job = await tx[ClusterJobStore].in_cluster(id, cluster_id)
            cluster = await tx[ClusterStore].get(cluster_id)
            if job is None or cluster is None:
                raise NotFound("this job was deleted")
            fence = await fence_of_job(tx, job.project_id, cluster, job.namespace, job.manifest)
        secrets = sealed_for_agent(self._context, job, cluster.sealing_key)
        return JobSpec(
            job.id,
            job.namespace,
            dict(job.manifest),
            job.timeout_s,
            job.follow,
            tuple(secrets),
            fence,
        )

    async def secrets(self, service: Service) -> Sequence[SealedSecret]:
        """Secrets of a service's objects, encrypted for its agent.

        Conflict: the agent has no key. Unavailable.
        """
        values = await self._secrets.of(service)
        if not values or service.removal is not None:
            return ()
        async with self._context.store.read() as tx:
            cluster = await tx[ClusterStore].get(service.cluster_id)
        return sealed_values(values, service, cluster.sealing_key if cluster else None)

    async def owns_job(self, cluster_id: ClusterId, job_id: str) -> bool:
        """True if the job belongs to this cluster."""
        async with self._context.store.read() as tx:
            return await tx[ClusterJobStore].in_cluster(job_id, cluster_id) is not None

    async def reject_command(self, cluster_id: ClusterId, command: Command, message: str) -> None:
        """Records why a command can never be sent to its agent."""
        body = CommandAnswer(command.id, CommandOutcome.REFUSED, f"not sent: {message}")
        await self._reports.record_unsent_command(cluster_id, body)

    async def delete_finished(self) -> None:
        """Deletes commands that ended 7 days ago and jobs that ended 30 days ago."""
        now = self._context.clock.now()
        async with self._context.store.write() as tx:
            await tx[CommandStore].remove_before("finished_at", now - _COMMAND_RETENTION)
            await tx[ClusterJobStore].remove_before("finished_at", now - _JOB_RETENTION)

    async def upgrade_outdated(self) -> None:
        """Asks agents with another version than that of their settings to upgrade."""
        await self._upgrades.upgrade_outdated()

    async def set_alarm(self, cluster_id: ClusterId, text: str) -> None:
        """Sets the alarm that is shown for a cluster's agents; an empty text clears it."""
        async with self._context.store.write() as tx:
            await tx[ClusterStore].set_alarm(cluster_id, text)
        self._context.bus.publish(CLUSTER, cluster_id)

    async def bundle(self, cluster_id: ClusterId, digest: str) -> bytes:
        """A bundle that a service of this cluster uses. NotFound: no service uses it."""
        return await self._bundles.fetch(cluster_id, digest)

    async def cached_bundle(self, service: Service) -> bytes:
        """The bundle of a service if the git cache has it; otherwise empty, and the agent fetches
        it."""
        if service.removal is not None or not service.desired.digest:
            return b""
        try:
            return await self._context.manifests.bundle(service.desired.digest)
        except TowlineError:
            return b""

    async def check_render_pending(self, cluster_id: ClusterId, command_id: str) -> None:
        """Checks that this command asked the cluster's agent for a render.

        NotFound: it did not, or it no longer waits.
        """
        async with self._context.store.read() as tx:
            await _pending_render(tx, cluster_id, command_id)

    async def store_render(self, cluster_id: ClusterId, command_id: str, data: bytes) -> str:
        """Stores the bundle that a command asked for, and returns its digest.

        NotFound; Unavailable; Invalid: the data is not a bundle.
        """
        await self.check_render_pending(cluster_id, command_id)
        bundle = await asyncio.to_thread(parse_bundle, data)
        digest = (await self._context.manifests.store_bundle(bundle.data)).digest
        async with self._context.store.write() as tx:
            command = await _pending_render(tx, cluster_id, command_id)
            uploaded = {**command.payload, UPLOADED_DIGEST: digest}
            await tx[CommandStore].set_payload(command_id, uploaded)
        return digest

    async def record_unsent_state(
        self, cluster_id: ClusterId, service_id: str, sequence: int, message: str
    ) -> None:
        """Records why a desired state cannot be sent to its agent."""
        await self._reports.record_unsent_state(cluster_id, service_id, sequence, message)

    async def record_reports(
        self, cluster_id: ClusterId, reports: Iterable[Report], offered: Sequence[LedgerEntry] = ()
    ) -> int:
        """Commits reports in order, and returns the number of the last committed report.

        Reports that were committed before are skipped, so an agent may send them again. The ledger
        lists the states `offered` to the agent before their results.
        """
        return await self._reports.record(AgentReports(cluster_id, list(reports), offered))


async def _pending_render(tx: Transaction, cluster_id: ClusterId, command_id: str) -> Command:
    command = await tx[CommandStore].in_cluster(command_id, cluster_id)
    if (
        command is None
        or command.state is not CommandState.WAITING
        or command.kind is not CommandKind.RENDER
    ):
        raise NotFound("no command waits for this render: it timed out or was never requested")
    return command
