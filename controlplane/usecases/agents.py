"""What agents ask and tell. Each verb is bound to the cluster that the agent signed in for."""

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta

import structlog

from controlplane.domain.clusterjobs import ClusterJob
from controlplane.domain.commands import Command, CommandKind, CommandState
from controlplane.domain.ledger import LedgerEntry
from controlplane.domain.reports import CommandReport, Greeting, Report
from controlplane.domain.services import Service
from controlplane.ports import ANY
from controlplane.secretports import ServiceSecrets
from controlplane.usecases.bundles import Bundles
from controlplane.usecases.clusterjobs import sealed_for_agent
from controlplane.usecases.connecting import Connected, Connecting
from controlplane.usecases.deps import CLUSTER, Deps
from controlplane.usecases.reportbatch import Bounds
from controlplane.usecases.reporting import Reporting, Told
from controlplane.usecases.retrying import retried
from controlplane.usecases.servicesecrets import StoredSecrets, sealed_values
from controlplane.usecases.wanted import Wanted, Wants
from fleet.bundle import bundle_of
from fleet.errors import NotFound, TowlineError
from fleet.identity import ClusterId
from fleet.sealing import SealedSecret

log = structlog.get_logger(__name__)

# Half of what a sequence may be; an agent that tells more has made it up.
_HIGHEST_HELD = 1 << 30
_COMMANDS_KEPT, _JOBS_KEPT = timedelta(days=7), timedelta(days=30)


@retried
class Agents:
    """Verbs of agents. `secrets` are what their services' objects name."""

    def __init__(
        self, deps: Deps, secrets: ServiceSecrets | None = None, bounds: Bounds | None = None
    ) -> None:
        self._deps = deps
        self._bundles = Bundles(deps)
        self._wants = Wants(deps.store)
        self._connecting = Connecting(deps, self._wants)
        self._reporting = Reporting(deps, bounds or Bounds())
        self._secrets = secrets or StoredSecrets(deps)

    async def connected(self, cluster_id: ClusterId, agent: Greeting) -> Connected:
        """Note that an agent has come, and give what it is to be told. NotFound; Unavailable."""
        return await self._connecting.connected(cluster_id, agent)

    async def instances(self, cluster_ids: Collection[ClusterId]) -> Mapping[ClusterId, str]:
        """The agent that has come last for each of these clusters, here or on another replica."""
        if not cluster_ids:
            return {}
        async with self._deps.store.read() as tx:
            found = await tx.clusters.column("agent_instance", cluster_ids)
        return {ClusterId(id): instance or "" for id, instance in found.items()}

    async def note(
        self, heard: Mapping[ClusterId, datetime], offered: Sequence[LedgerEntry]
    ) -> None:
        """Write down when agents were last heard of, and what was offered to them."""
        if not heard and not offered:
            return
        async with self._deps.store.write() as tx:
            await tx.clusters.change_each({id: {"pinged_at": at} for id, at in heard.items()})
            await tx.ledger.append(offered)

    async def wanted(
        self, cluster_id: ClusterId, service_ids: Collection[str] | None = None
    ) -> Wanted:
        """What the cluster should hold and let go of, of some services or of all, and all that
        waits to be asked of its agent."""
        return await self._wants.of(cluster_id, service_ids)

    async def overtake(
        self, cluster_id: ClusterId, held: Mapping[str, int], *, rewound: bool = False
    ) -> None:
        """Count on from what the agent holds, where that is more than was ever asked of it.

        So it is after the store was restored from a backup: the agent would pass over all that
        the older sequences say. Where it is known to have been `rewound`, the same sequence may
        stand for something else by now.
        """
        async with self._deps.store.write() as tx:
            for service in await tx.services.select(cluster_id=cluster_id, deleted_at=ANY):
                ahead = held.get(service.id, 0)
                older = 0 < service.sequence < ahead + rewound
                if older and 0 < ahead <= _HIGHEST_HELD and not service.mirrored:
                    log.warning("the agent is ahead of the store", service=service.id, held=ahead)
                    await tx.services.change(service.id, sequence=ahead + 1)

    async def job(
        self, cluster_id: ClusterId, id: str
    ) -> tuple[ClusterJob, Sequence[SealedSecret]]:
        """A job of the cluster and its secrets, sealed to the agent. NotFound; Conflict: no key."""
        async with self._deps.store.read() as tx:
            job = await tx.cluster_jobs.find(id=id, cluster_id=cluster_id)
            cluster = await tx.clusters.get(cluster_id)
        if job is None or cluster is None:
            raise NotFound("this job is gone")
        return job, sealed_for_agent(self._deps, job, cluster.sealing_key)

    async def secrets(self, service: Service) -> Sequence[SealedSecret]:
        """What a service's objects name, sealed to its agent. Conflict: no key; Unavailable."""
        values = await self._secrets.of(service)
        if not values or service.removal is not None:
            return ()
        async with self._deps.store.read() as tx:
            cluster = await tx.clusters.get(service.cluster_id)
        return sealed_values(values, service, cluster.sealing_key if cluster else None)

    async def runs_here(self, cluster_id: ClusterId, job_id: str) -> bool:
        """Whether there is such a job in this cluster."""
        async with self._deps.store.read() as tx:
            return await tx.cluster_jobs.find(id=job_id, cluster_id=cluster_id) is not None

    async def unsendable(self, cluster_id: ClusterId, command: Command, message: str) -> None:
        """Note that a command can never be sent to its agent, and why."""
        body = CommandReport(command.id, CommandState.REFUSED, f"not sent: {message}")
        await self._reporting.note(cluster_id, body)

    async def forget_finished(self) -> None:
        """Delete commands that ended a week ago, and jobs that ended a month ago."""
        now = self._deps.clock.now()
        async with self._deps.store.write() as tx:
            await tx.commands.remove_before("finished_at", now - _COMMANDS_KEPT)
            await tx.cluster_jobs.remove_before("finished_at", now - _JOBS_KEPT)

    async def alarm(self, cluster_id: ClusterId, text: str) -> None:
        """Show what is wrong with a cluster's agents; an empty text ends it."""
        async with self._deps.store.write() as tx:
            await tx.clusters.change(cluster_id, alarm=text)
        self._deps.bus.publish(CLUSTER, cluster_id)

    async def bundle(self, cluster_id: ClusterId, digest: str) -> bytes:
        """A bundle that a service of this cluster uses. NotFound: none does."""
        return await self._bundles.fetch(cluster_id, digest)

    async def rendered(self, service: Service) -> bytes:
        """The bundle of a service, if that is at hand; else its agent fetches it."""
        if service.removal is not None or not service.digest:
            return b""
        try:
            return await self._deps.manifests.bundle(service.digest)
        except TowlineError:
            return b""

    async def awaits_render(self, cluster_id: ClusterId, command_id: str) -> None:
        """NotFound: the cluster's agent was not asked for a render by this command."""
        async with self._deps.store.read() as tx:
            found = await tx.commands.find(id=command_id, cluster_id=cluster_id)
        waits = found is not None and found.state is CommandState.WAITING
        if not waits or found.kind is not CommandKind.RENDER:
            raise NotFound("no such render is waited for: too late, or never asked for")

    async def keep_render(self, cluster_id: ClusterId, command_id: str, data: bytes) -> str:
        """Keep the bundle that a command asked for; its digest. NotFound, Unavailable; Invalid: it
        is no bundle."""
        await self.awaits_render(cluster_id, command_id)
        bundle = await asyncio.to_thread(bundle_of, data)
        return (await self._deps.manifests.keep(bundle.data)).digest

    async def refused(
        self, cluster_id: ClusterId, service_id: str, sequence: int, message: str
    ) -> None:
        """Note that a desired state cannot be sent to its agent, and why."""
        await self._reporting.refused(cluster_id, service_id, sequence, message)

    async def record(
        self,
        cluster_id: ClusterId,
        reports: Iterable[Report],
        offered: Sequence[LedgerEntry] = (),
    ) -> int:
        """Commit reports in their order; the number up to which all are committed.

        Reports that were committed before are passed over, so sending again is harmless.
        `offered` is what the agent was sent before; the ledger has it before what came of it.
        """
        return await self._reporting.record(Told(cluster_id, list(reports), offered))
