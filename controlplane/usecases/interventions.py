"""What people ask of agents beside desired state: confirm, terminate, upgrade, look at plans."""

from collections.abc import Sequence

from controlplane.domain.access import Actor, Verb, require, require_member
from controlplane.domain.clusters import Cluster
from controlplane.domain.commands import Command, CommandKind
from controlplane.domain.ledger import LedgerEntry, Stage
from controlplane.domain.names import check_text
from controlplane.domain.objects import ObjectName, Plan
from controlplane.domain.services import Confirmation, Service
from controlplane.usecases.clusters import find_cluster
from controlplane.usecases.deps import CLUSTER, DESIRED, SERVICE, Deps
from controlplane.usecases.freezes import check_thawed
from controlplane.usecases.retrying import retried
from controlplane.usecases.services import find_defined, find_service
from fleet.errors import Conflict, Invalid

_MOST_CONFIRMED = 1000


@retried
class Interventions:
    """Verbs of people on what agents do."""

    def __init__(self, deps: Deps) -> None:
        self._deps = deps

    async def confirm_deletions(
        self, actor: Actor, service_id: str, objects: Sequence[ObjectName]
    ) -> Service:
        """Let the agent delete exactly these objects, all of which wait for it.

        Also those of a service that is being removed, which is not listed any more.
        Conflict: one does not wait (any more): what was looked at is not what is there now.
        """
        require_member(actor)
        if not 1 <= len(objects) <= _MOST_CONFIRMED:
            raise Invalid(f"name 1 to {_MOST_CONFIRMED} objects", field="objects")
        async with self._deps.store.write() as tx:
            service = await find_defined(tx, service_id, going=True)
            require(actor, Verb.WRITE, service.target)
            await check_thawed(tx, service.cluster_id)
            waiting = {one.key: one for one in service.awaiting}
            if unknown := [str(one) for one in objects if one.key not in waiting]:
                raise Conflict(f"does not wait for a confirmation: {', '.join(unknown[:5])}")
            sequence = service.sequence + 1
            confirmed = Confirmation(sequence, tuple(waiting[one.key] for one in objects))
            await tx.services.change(service.id, sequence=sequence, confirmed=confirmed)
            names = [str(one) for one in confirmed.objects]
            await tx.ledger.append([self._entry(service, sequence, actor, names)])
            await self._deps.audit(
                tx, actor, "confirmDeletions", service.name, service.id, objects=names[:100]
            )
        self._wake(service)
        return service

    async def terminate(self, actor: Actor, service_id: str) -> Service:
        """Have the agent stop what it is applying for this service, hooks included."""
        require_member(actor)
        async with self._deps.store.write() as tx:
            service = await find_service(tx, service_id)
            require(actor, Verb.WRITE, service.target)
            await tx.commands.add(
                Command(
                    self._deps.new_id(),
                    service.cluster_id,
                    CommandKind.TERMINATE,
                    self._deps.clock.now(),
                    service.id,
                )
            )
            await self._deps.audit(tx, actor, "terminateService", service.name, service.id)
        self._wake(service)
        return service

    async def upgrade_agent(
        self, actor: Actor, cluster_id: str, version: str, image: str
    ) -> Cluster:
        """Have a cluster's agent replace itself; it steps back if the new one fails."""
        require_member(actor)
        check_text(version, "version", 64)
        check_text(image, "image", 1024)
        async with self._deps.store.write() as tx:
            cluster = await find_cluster(tx, cluster_id)
            require(actor, Verb.WRITE, cluster.target)
            await tx.commands.add(
                Command(
                    self._deps.new_id(),
                    cluster.id,
                    CommandKind.UPGRADE,
                    self._deps.clock.now(),
                    payload={"version": version, "image": image},
                )
            )
            await self._deps.audit(
                tx, actor, "upgradeAgent", cluster.handle, cluster.id, version=version, image=image
            )
        self._deps.bus.publish(DESIRED, f"{cluster.id}/upgrade")
        self._deps.bus.publish(CLUSTER, cluster.id)
        return cluster

    async def plan(self, actor: Actor, service_id: str) -> Plan | None:
        """What the dry run of a service would do; None: it has not told yet, or is none."""
        require_member(actor)
        async with self._deps.store.read() as tx:
            service = await find_service(tx, service_id)
            require(actor, Verb.READ, service.target)
            plan = await tx.plans.get(service_id)
        return plan if plan and service.dry_run and plan.sequence == service.sequence else None

    def _entry(
        self, service: Service, sequence: int, actor: Actor, names: list[str]
    ) -> LedgerEntry:
        return LedgerEntry(
            service_id=service.id,
            cluster_id=service.cluster_id,
            stage=Stage.CONFIRMED,
            at=self._deps.clock.now(),
            sequence=sequence,
            sha=service.sha,
            digest=service.digest,
            revision_id=service.revision_id,
            actor=actor.email or actor.name,
            message=f"deletion of {', '.join(names[:5])}"
            + (f" and {len(names) - 5} more" if len(names) > 5 else ""),
            detail={"objects": names[:1000]},
        )

    def _wake(self, service: Service) -> None:
        self._deps.bus.publish(SERVICE, service.id)
        self._deps.bus.publish(DESIRED, f"{service.cluster_id}/{service.id}")
