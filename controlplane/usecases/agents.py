"""What agents ask and tell. Each verb is bound to the cluster that the agent signed in for."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import singledispatchmethod

from controlplane.domain.clusters import Cluster, Distribution
from controlplane.domain.commands import Command, CommandState
from controlplane.domain.ledger import LedgerEntry, Stage
from controlplane.domain.reports import (
    CommandReport,
    DriftReport,
    Facts,
    InventoryReport,
    ObjectKey,
    ObservedComponent,
    Report,
    StatusReport,
)
from controlplane.domain.services import Component, Phase, Problem, Service
from controlplane.ports import ANY, Transaction
from controlplane.usecases.delivery import parameters_of
from controlplane.usecases.deps import CLUSTER, REVOKED, SERVICE, Deps
from controlplane.usecases.removal import end_if_empty, erase
from fleet.errors import NotFound
from fleet.identity import ClusterId, ServiceId

_STAGES = {
    Phase.APPLIED: Stage.APPLIED,
    Phase.HEALTHY: Stage.HEALTHY,
    Phase.DEGRADED: Stage.DEGRADED,
    Phase.FAILED: Stage.FAILED,
    Phase.REMOVED: Stage.REMOVED,
}


class Agents:
    """Verbs of agents."""

    def __init__(self, deps: Deps) -> None:
        self._deps = deps

    async def connected(self, cluster_id: ClusterId, facts: Facts) -> Cluster:
        """Note that an agent has come, and give what is known of its cluster."""
        async with self._deps.store.write() as tx:
            cluster = await tx.clusters.get(cluster_id)
            if cluster is None:
                raise NotFound("this cluster was deleted")
            known = Distribution(facts.distribution) if facts.distribution else None
            cluster = replace(
                cluster,
                agent_version=facts.agent_version,
                kubernetes_version=facts.kubernetes_version,
                distribution=known,
                nodes=facts.nodes,
                agent_instance=facts.instance,
                pinged_at=self._deps.clock.now(),
            )
            await tx.clusters.put(cluster)
        self._deps.bus.publish(CLUSTER, cluster_id)
        return cluster

    async def note(
        self, heard: Mapping[ClusterId, datetime], offered: Sequence[LedgerEntry]
    ) -> None:
        """Write down when agents were last heard of, and what was offered to them."""
        if not heard and not offered:
            return
        async with self._deps.store.write() as tx:
            for cluster_id, at in heard.items():
                await tx.clusters.change(cluster_id, pinged_at=at)
            await tx.ledger.append(offered)

    async def desired(self, cluster_id: ClusterId) -> list[Service]:
        """Everything that the cluster should hold, and what it should let go of."""
        async with self._deps.store.read() as tx:
            services = await tx.services.select(cluster_id=cluster_id, deleted_at=ANY)
        return [service for service in services if service.sequence > 0]

    async def waiting_commands(self, cluster_id: ClusterId) -> list[Command]:
        """What waits to be asked of the cluster's agent, oldest first."""
        async with self._deps.store.read() as tx:
            return await tx.commands.select(cluster_id=cluster_id, state=CommandState.WAITING)

    async def desired_service(self, cluster_id: ClusterId, service_id: str) -> Service | None:
        """One service of the cluster, deleted or not; None: it has gone."""
        async with self._deps.store.read() as tx:
            return await tx.services.find(id=service_id, cluster_id=cluster_id, deleted_at=ANY)

    async def bundle(self, cluster_id: ClusterId, digest: str) -> bytes:
        """A bundle that a service of this cluster uses. NotFound: none does."""
        async with self._deps.store.read() as tx:
            user = await tx.services.find(cluster_id=cluster_id, digest=digest)
            cluster = await tx.clusters.get(cluster_id)
        if user is None or user.sha is None or cluster is None:
            raise NotFound(f"no service of this cluster uses {digest}")
        try:
            return await self._deps.manifests.bundle(digest)
        except NotFound:
            # The git cache may lose what it can make again.
            request = user.render_request(user.sha, parameters_of(user, cluster))
            await self._deps.manifests.render(request)
            return await self._deps.manifests.bundle(digest)

    async def refused(
        self, cluster_id: ClusterId, service_id: str, sequence: int, message: str
    ) -> None:
        """Note that a desired state cannot be sent to its agent, and why."""
        now = self._deps.clock.now()
        async with self._deps.store.write() as tx:
            service = await tx.services.find(id=service_id, cluster_id=cluster_id)
            if service is None or service.observed >= sequence:
                return
            body = StatusReport(
                service_id,
                sequence,
                service.digest or "",
                Phase.FAILED,
                (Problem("link", message),),
            )
            await tx.services.change(
                service_id,
                observed=sequence,
                phase=Phase.FAILED,
                problems=body.problems,
                observed_at=now,
            )
            await tx.ledger.append([_ledger(service, body, now)])
        self._deps.bus.publish(SERVICE, service_id)

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
        changed: set[tuple[str, str]] = set()
        async with self._deps.store.write() as tx:
            cluster = await tx.clusters.get(cluster_id)
            if cluster is None:
                raise NotFound("this cluster was deleted")
            await tx.ledger.append(offered)
            last = cluster.acknowledged
            for report in reports:
                if report.number > last:
                    await self._take(report.body, tx, cluster_id, report.at, changed)
                    last = report.number
            await tx.clusters.change(
                cluster_id, acknowledged=last, pinged_at=self._deps.clock.now()
            )
        for topic, key in changed:
            self._deps.bus.publish(topic, key)
        return last

    @singledispatchmethod
    async def _take(
        self, body: object, tx: Transaction, cluster_id: str, at: datetime, changed: set
    ) -> None:
        """A kind of report that this version does not know is passed over."""

    @_take.register
    async def _(
        self, body: StatusReport, tx: Transaction, cluster_id: str, at: datetime, changed: set
    ) -> None:
        service = await tx.services.find(id=body.service_id, cluster_id=cluster_id, deleted_at=ANY)
        if service is None or body.sequence < service.observed:
            return
        if body.phase is Phase.REMOVED and service.deleted_at is not None:
            await tx.ledger.append([_ledger(service, body, at)])
            await erase(tx, service)
            for token in await end_if_empty(tx, cluster_id, self._deps.clock.now()):
                changed.add((REVOKED, token))
            changed.update({(SERVICE, service.id), (CLUSTER, cluster_id)})
            return
        is_news = (service.observed, service.phase) != (body.sequence, body.phase)
        await tx.services.change(
            service.id,
            observed=body.sequence,
            phase=body.phase,
            problems=body.problems,
            observed_at=at,
        )
        if is_news and body.phase in _STAGES:
            await tx.ledger.append([_ledger(service, body, at)])
        changed.add((SERVICE, service.id))

    @_take.register
    async def _(
        self, body: InventoryReport, tx: Transaction, cluster_id: str, at: datetime, changed: set
    ) -> None:
        if await tx.services.find(id=body.service_id, cluster_id=cluster_id) is None:
            return
        present = [_component(body.service_id, cluster_id, one, at) for one in body.present]
        if body.complete:
            before = await tx.components.select(service_id=body.service_id)
            await tx.components.forget({c.id for c in before} - {c.id for c in present})
        else:
            await tx.components.forget([_component_id(body.service_id, key) for key in body.gone])
        await tx.components.upsert(present)
        changed.add((SERVICE, body.service_id))

    @_take.register
    async def _(
        self, body: CommandReport, tx: Transaction, cluster_id: str, at: datetime, changed: set
    ) -> None:
        command = await tx.commands.find(id=body.command_id, cluster_id=cluster_id)
        if command is not None and command.state is CommandState.WAITING:
            await tx.commands.change(
                command.id, state=body.state, message=body.message, finished_at=at
            )

    @_take.register
    async def _(
        self, body: DriftReport, tx: Transaction, cluster_id: str, at: datetime, changed: set
    ) -> None:
        service = await tx.services.find(id=body.service_id, cluster_id=cluster_id)
        if service is None:
            return
        _, kind, namespace, name = body.key
        what = "deleted" if body.deleted else "changed"
        entry = LedgerEntry(
            service_id=service.id,
            cluster_id=cluster_id,
            stage=Stage.DRIFTED,
            at=at,
            sequence=service.observed,
            digest=service.digest,
            actor=body.manager,
            message=f"{kind} {namespace}/{name} was {what}"
            + (" and put back" if body.healed else ""),
            detail={"paths": list(body.paths), "healed": body.healed},
        )
        await tx.ledger.append([entry])
        changed.add((SERVICE, service.id))


def _ledger(service: Service, body: StatusReport, at: datetime) -> LedgerEntry:
    times = {
        "received_at": body.received_at,
        "fetched_at": body.fetched_at,
        "applied_at": body.applied_at,
        "healthy_at": body.healthy_at,
    }
    detail: dict[str, object] = {k: v.isoformat() for k, v in times.items() if v is not None}
    detail |= {"written": body.written, "pruned": body.pruned}
    message = "; ".join(problem.message for problem in body.problems[:3])
    return LedgerEntry(
        service_id=service.id,
        cluster_id=service.cluster_id,
        stage=_STAGES[body.phase],
        at=at,
        sequence=body.sequence,
        sha=service.sha,
        digest=body.digest,
        revision_id=service.revision_id,
        message=message[:2000],
        detail=detail,
    )


def _component_id(service_id: str, key: ObjectKey) -> str:
    return hashlib.sha256("\0".join((service_id, *key)).encode()).hexdigest()


def _component(service_id: str, cluster_id: str, one: ObservedComponent, at: datetime) -> Component:
    group, kind, namespace, name = one.key
    return Component(
        id=_component_id(service_id, one.key),
        service_id=ServiceId(service_id),
        cluster_id=ClusterId(cluster_id),
        group=group,
        version=one.version,
        kind=kind,
        namespace=namespace,
        name=name,
        uid=one.uid,
        owner_uid=one.owner_uid,
        state=one.state,
        message=one.message,
        synced=one.synced,
        images=one.images,
        updated_at=at,
    )
