"""What agents ask and tell. Each verb is bound to the cluster that the agent signed in for."""

import asyncio
import hashlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from functools import singledispatchmethod
from typing import Any

import structlog

from controlplane.domain.clusterjobs import ClusterJob, JobPhase
from controlplane.domain.commands import Command, CommandKind, CommandState
from controlplane.domain.ledger import LedgerEntry, Stage
from controlplane.domain.names import is_label
from controlplane.domain.objects import ObjectKey, Plan
from controlplane.domain.reports import (
    CommandReport,
    DriftReport,
    FactsReport,
    Greeting,
    InventoryReport,
    JobReport,
    MirrorReport,
    ObservedComponent,
    Report,
    StatusReport,
    VerifiedReport,
)
from controlplane.domain.services import Component, Phase, Problem, Service
from controlplane.ports import ANY, Transaction
from controlplane.secretports import ServiceSecrets
from controlplane.usecases import audit_agents, holds
from controlplane.usecases.clusterjobs import sealed_for_agent
from controlplane.usecases.connecting import Connected, Connecting, columns_of, desired_of
from controlplane.usecases.contexts import values_of
from controlplane.usecases.delivery import parameters_of, render_anew
from controlplane.usecases.dependencies import wakes
from controlplane.usecases.deps import CLUSTER, CLUSTER_JOB, DESIRED, REVOKED, SERVICE, Deps
from controlplane.usecases.removal import end_if_empty, erase
from controlplane.usecases.renders import made_to_json
from controlplane.usecases.reportbatch import Bounds, ReportBatch
from controlplane.usecases.servicesecrets import StoredSecrets, sealed_values
from controlplane.usecases.sources import sources_of, take
from fleet.bundle import bundle_of
from fleet.errors import Conflict, NotFound, TowlineError
from fleet.identity import ClusterId, ServiceId, is_local_id
from fleet.sealing import SealedSecret

log = structlog.get_logger(__name__)

_STAGES = {
    Phase.APPLIED: Stage.APPLIED,
    Phase.HEALTHY: Stage.HEALTHY,
    Phase.DEGRADED: Stage.DEGRADED,
    Phase.FAILED: Stage.FAILED,
    Phase.REMOVED: Stage.REMOVED,
    Phase.AWAITING: Stage.AWAITING,
}
# Half of what a sequence may be; an agent that tells more has made it up.
_HIGHEST_HELD = 1 << 30
_COMMANDS_KEPT, _JOBS_KEPT = timedelta(days=7), timedelta(days=30)
_ENDINGS = {CommandState.FAILED: JobPhase.FAILED, CommandState.REFUSED: JobPhase.FAILED}


class Agents:
    """Verbs of agents. `secrets` are what their services' objects name."""

    def __init__(
        self, deps: Deps, secrets: ServiceSecrets | None = None, bounds: Bounds | None = None
    ) -> None:
        self._deps = deps
        self._bounds = bounds or Bounds()
        self._connecting = Connecting(deps)
        self._secrets = secrets or StoredSecrets(deps)

    async def connected(self, cluster_id: ClusterId, agent: Greeting) -> Connected:
        """Note that an agent has come, and give what it is to be told. NotFound; Unavailable."""
        return await self._connecting.connected(cluster_id, agent)

    async def instances(self, cluster_ids: Collection[ClusterId]) -> Mapping[ClusterId, str]:
        """The agent that has come last for each of these clusters, here or on another replica."""
        if not cluster_ids:
            return {}
        async with self._deps.store.read() as tx:
            found = await tx.clusters.select(id=cluster_ids)
        return {one.id: one.agent_instance or "" for one in found}

    async def note(
        self, heard: Mapping[ClusterId, datetime], offered: Sequence[LedgerEntry]
    ) -> None:
        """Write down when agents were last heard of, and what was offered to them."""
        if not heard and not offered:
            return
        async with self._deps.store.write() as tx:
            await tx.clusters.change_each({id: {"pinged_at": at} for id, at in heard.items()})
            await tx.ledger.append(offered)

    async def desired(self, cluster_id: ClusterId) -> list[Service]:
        """Everything that the cluster should hold, and what it should let go of."""
        async with self._deps.store.read() as tx:
            services = await tx.services.select(cluster_id=cluster_id, deleted_at=ANY)
        return desired_of(services)

    async def overtake(
        self, cluster_id: ClusterId, held: Mapping[str, int], *, rewound: bool = False
    ) -> None:
        """Count on from what the agent holds, where that is more than was ever asked of it.

        So it is after the store was restored from a backup: the agent would pass over all that
        the older sequences say. Where it is known to have been `rewound`, the same sequence may
        stand for something else by now.
        """
        async with self._deps.store.write() as tx:
            for one in await tx.services.select(cluster_id=cluster_id, deleted_at=ANY):
                ahead = held.get(one.id, 0)
                older = 0 < one.sequence < ahead + rewound
                if older and 0 < ahead <= _HIGHEST_HELD and not one.mirrored:
                    log.warning("the agent is ahead of the store", service=one.id, held=ahead)
                    await tx.services.change(one.id, sequence=ahead + 1)

    async def waiting_commands(self, cluster_id: ClusterId) -> list[Command]:
        """What waits to be asked of the cluster's agent, oldest first."""
        async with self._deps.store.read() as tx:
            return await tx.commands.select(cluster_id=cluster_id, state=CommandState.WAITING)

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
        async with self._deps.store.write() as tx:
            batch = await ReportBatch.of(tx, cluster_id, (), self._bounds)
            await self._take(body, batch, self._deps.clock.now())
            await batch.write()
        self._publish(batch.changed)

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

    async def news(
        self, cluster_id: ClusterId, service_ids: Collection[str]
    ) -> tuple[list[Service], list[Command]]:
        """What the cluster should hold of some services, deleted or not, and all that waits."""
        async with self._deps.store.read() as tx:
            services = await tx.services.select(
                id=service_ids, cluster_id=cluster_id, mirrored=False, deleted_at=ANY
            )
            waiting = await tx.commands.select(cluster_id=cluster_id, state=CommandState.WAITING)
        return [one for one in services if one.sequence > 0], waiting

    async def bundle(self, cluster_id: ClusterId, digest: str) -> bytes:
        """A bundle that a service of this cluster uses. NotFound: none does."""
        async with self._deps.store.read() as tx:
            user = await tx.services.find(cluster_id=cluster_id, digest=digest)
            cluster = await tx.clusters.get(cluster_id)
            contexts = await values_of(self._deps, tx, [user] if user else [])
            sources = await sources_of(tx, [user.id] if user else [])
        if user is None or user.sha is None or cluster is None:
            raise NotFound(f"no service of this cluster uses {digest}")
        try:
            return await self._deps.manifests.bundle(digest)
        except NotFound:
            # The git cache may lose what it can make again.
            parameters = parameters_of(user, cluster, contexts.get(user.id, {}))
            taken = take(self._deps, sources.get(user.id, ()), as_rendered=True)
            request = user.render_request(user.sha, parameters, taken.folders)
            await self._deps.manifests.render(request)
            return await self._deps.manifests.bundle(digest)

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
        told = list(reports)
        try:
            return await self._record(cluster_id, told, offered)
        except Conflict:
            # Agents of two clusters have found the same bundle to be bad: now its row is there.
            return await self._record(cluster_id, told, offered)

    async def _record(
        self, cluster_id: ClusterId, reports: Sequence[Report], offered: Sequence[LedgerEntry]
    ) -> int:
        async with self._deps.store.write() as tx:
            cluster = await tx.clusters.get(cluster_id)
            if cluster is None:
                raise NotFound("this cluster was deleted")
            await tx.ledger.append(offered)
            last = cluster.acknowledged
            news = [report for report in reports if report.number > last]
            batch = await ReportBatch.of(tx, cluster_id, news, self._bounds)
            for report in news:
                if report.number > last:
                    await self._take(report.body, batch, report.at)
                    last = report.number
            await batch.write()
            if _tells_health(news):
                batch.changed |= await wakes(tx, cluster_id)
            told: dict[str, Any] = {"acknowledged": last, "pinged_at": self._deps.clock.now()}
            if (alarm := batch.alarm(cluster.alarm)) != cluster.alarm:
                told["alarm"] = alarm
                batch.changed.add((CLUSTER, cluster_id))
            await tx.clusters.change(cluster_id, **told)
        self._publish(batch.changed)
        return last

    def _publish(self, changed: Iterable[tuple[str, str]]) -> None:
        for topic, key in changed:
            self._deps.bus.publish(topic, key)

    @singledispatchmethod
    async def _take(self, body: object, batch: ReportBatch, at: datetime) -> None:
        """A kind of report that this version does not know is passed over."""

    @_take.register
    async def _(self, body: StatusReport, batch: ReportBatch, at: datetime) -> None:
        tx, cluster_id, changed = batch.tx, batch.cluster_id, batch.changed
        service = batch.services.get(body.service_id)
        if service is None or body.sequence < service.observed:
            return
        if body.phase is Phase.REMOVED and service.deleted_at is not None:
            batch.ledger.append(_ledger(service, body, at))
            batch.forget(service)
            await erase(tx, service)
            for token in await end_if_empty(tx, cluster_id, self._deps.clock.now()):
                changed.add((REVOKED, token))
            changed.update({(SERVICE, service.id), (CLUSTER, cluster_id)})
            return
        batch.change(
            service,
            observed=body.sequence,
            phase=body.phase,
            problems=body.problems,
            observed_at=at,
            message=body.message,
            awaiting=body.awaiting,
        )
        if service.dry_run and body.planned:
            await _keep_plan(tx, Plan(service.id, body.sequence, body.planned))
        is_news = (service.observed, service.phase) != (body.sequence, body.phase)
        if is_news and body.phase in _STAGES:
            batch.ledger.append(_ledger(service, body, at))
        changed.add((SERVICE, service.id))

    @_take.register
    async def _(self, body: InventoryReport, batch: ReportBatch, at: datetime) -> None:
        service = batch.services.get(body.service_id)
        if service is None or service.deleted_at is not None:
            return
        id = service.id
        present = [_component(id, batch.cluster_id, one, at) for one in body.present]
        gone = {_component_id(id, key) for key in body.gone}
        await batch.take_inventory(id, present, gone, complete=body.complete)
        batch.changed.add((SERVICE, id))

    @_take.register
    async def _(self, body: CommandReport, batch: ReportBatch, at: datetime) -> None:
        tx, cluster_id, changed = batch.tx, batch.cluster_id, batch.changed
        command = await tx.commands.find(id=body.command_id, cluster_id=cluster_id)
        if command is not None and command.state is CommandState.WAITING:
            await tx.commands.change(command.id, finished_at=at, **_ended(command, body))
            if command.kind is CommandKind.RUN_JOB and body.state in _ENDINGS:
                await _end_job(tx, command.id, _ENDINGS[body.state], body.message, at)
            cluster = await tx.clusters.get(cluster_id)
            if cluster is not None and command.kind is not CommandKind.RENDER:
                told = audit_agents.carried_out(cluster, command, body.state, body.message, at)
                await tx.audit.append([told])
            changed.add((CLUSTER_JOB, command.id))

    @_take.register
    async def _(self, body: DriftReport, batch: ReportBatch, at: datetime) -> None:
        service = batch.services.get(body.service_id)
        if service is None or service.deleted_at is not None:
            return
        _, kind, namespace, name = body.key
        what = "deleted" if body.deleted else "changed"
        entry = LedgerEntry(
            service_id=service.id,
            cluster_id=batch.cluster_id,
            stage=Stage.DRIFTED,
            at=at,
            sequence=service.observed,
            digest=service.digest,
            actor=body.manager,
            message=f"{kind} {namespace}/{name} was {what}"
            + (" and put back" if body.healed else ""),
            detail={
                "paths": list(body.paths),
                "healed": body.healed,
                "changes": [
                    {"pointer": one.pointer, "old": one.old, "new": one.new} for one in body.changes
                ],
            },
        )
        batch.ledger.append(entry)
        batch.changed.add((SERVICE, service.id))

    @_take.register
    async def _(self, body: VerifiedReport, batch: ReportBatch, at: datetime) -> None:
        service = await batch.locked(body.service_id)
        if service is None:
            return
        entry = LedgerEntry(
            service_id=service.id,
            cluster_id=batch.cluster_id,
            stage=Stage.VERIFIED if body.ok else Stage.HELD,
            at=at,
            sequence=body.sequence,
            sha=service.sha if body.digest == service.digest else None,
            digest=body.digest,
            revision_id=service.revision_id if body.digest == service.digest else None,
            message=body.reason[:2000],
            detail={"instead": body.instead},
        )
        batch.ledger.append(entry)
        batch.changed.add((SERVICE, service.id))
        if not body.ok:
            columns, rows = await holds.taken_back(self._deps, batch.tx, service, body)
            if columns:
                batch.change(service, **columns)
            batch.ledger.extend(rows)
            batch.changed.add((DESIRED, f"{service.cluster_id}/{service.id}"))
        elif service.hold is not None and service.hold.digest == body.digest:
            batch.change(service, held=None, hold=None)

    @_take.register
    async def _(self, body: JobReport, batch: ReportBatch, at: datetime) -> None:
        tx, cluster_id, changed = batch.tx, batch.cluster_id, batch.changed
        job = await tx.cluster_jobs.find(id=body.command_id, cluster_id=cluster_id)
        if job is None or job.phase.final:
            return
        await tx.cluster_jobs.change(
            job.id,
            phase=body.phase,
            object=body.object,
            message=body.message,
            exit_code=body.exit_code if body.phase.final else None,
            started_at=body.started_at,
            finished_at=(body.finished_at or at) if body.phase.final else None,
            log_tail=body.log_tail,
            outputs=body.outputs,
        )
        changed.add((CLUSTER_JOB, job.id))

    @_take.register
    async def _(self, body: FactsReport, batch: ReportBatch, at: datetime) -> None:
        tx, cluster_id, changed = batch.tx, batch.cluster_id, batch.changed
        before = await tx.clusters.get(cluster_id)
        await tx.clusters.change(cluster_id, **columns_of(body))
        changed.add((CLUSTER, cluster_id))
        if before is not None:
            changed.update(await render_anew(tx, [(before, replace(before, **columns_of(body)))]))

    @_take.register
    async def _(self, body: MirrorReport, batch: ReportBatch, at: datetime) -> None:
        tx, cluster_id, changed = batch.tx, batch.cluster_id, batch.changed
        if not is_local_id(body.service_id):
            return
        known = await tx.services.find(id=body.service_id, deleted_at=ANY)
        if known is not None and (known.cluster_id != cluster_id or not known.mirrored):
            return
        if body.removed and known is not None:
            batch.forget(known)
            await erase(tx, known)
        elif not body.removed and (known is not None or await batch.may_mirror()):
            await _mirror(tx, known, body, ClusterId(cluster_id), at)
            await batch.look(body.service_id)
        changed.update({(SERVICE, body.service_id), (CLUSTER, cluster_id)})


def _ended(command: Command, body: CommandReport) -> dict[str, Any]:
    """What a command's row holds of its answer; of a render the result takes the order's place."""
    columns: dict[str, Any] = {"state": body.state, "message": body.message}
    if command.kind is CommandKind.RENDER:
        columns["payload"] = made_to_json(body.made) if body.made else {}
    return columns


async def _keep_plan(tx: Transaction, plan: Plan) -> None:
    if await tx.plans.get(plan.id) is None:
        await tx.plans.add(plan)
    else:
        await tx.plans.put(plan)


async def _end_job(tx: Transaction, id: str, phase: JobPhase, message: str, at: datetime) -> None:
    """A job that was never begun has ended by the refusal of its command."""
    job = await tx.cluster_jobs.get(id)
    if job is not None and not job.phase.final:
        await tx.cluster_jobs.change(id, phase=phase, message=message, finished_at=at)


async def _mirror(
    tx: Transaction,
    known: Service | None,
    body: MirrorReport,
    cluster_id: ClusterId,
    at: datetime,
) -> None:
    """Show a service as its cluster defines it."""
    cluster = await tx.clusters.get(cluster_id)
    if cluster is None or not is_label(body.name) or not is_label(body.namespace):
        return
    taken = await tx.services.find(cluster_id=cluster_id, name=body.name, deleted_at=ANY)
    free = taken is None or taken.id == body.service_id
    name = body.name if free else f"{body.name[:54]}-{body.service_id[:8]}"
    told = {
        "namespace": body.namespace,
        "updated_at": at,
        "origin": body.repository,
        "ref": body.ref,
        "folder": body.folder,
        "sha": body.commit or None,
        "digest": body.digest or None,
        "sequence": body.sequence,
        "render_error": body.error or None,
    }
    if known is None:
        blank = Service(ServiceId(body.service_id), cluster_id, None, name, body.namespace, at, at)
        await tx.services.add(replace(blank, mirrored=True, project_id=cluster.project_id, **told))
    else:
        await tx.services.change(known.id, **told)


def _tells_health(reports: Iterable[Report]) -> bool:
    """Whether others may have waited for what these tell."""
    bodies = [one.body for one in reports]
    return any(isinstance(one, StatusReport) and one.phase is Phase.HEALTHY for one in bodies)


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
        labels=one.labels,
        generation=one.generation,
        hash=one.hash,
        finalizers=one.finalizers,
    )
