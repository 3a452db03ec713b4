"""Commands of users to agents: confirm deletions, stop a sync, upgrade, read dry-run plans."""

from collections.abc import Collection, Iterable, Mapping, Sequence

from controlplane.authorization import Actor, Verb, require, require_member
from controlplane.clusters.model.cluster import Cluster
from controlplane.clusters.model.commands import Command, CommandKind
from controlplane.clusters.operations.clusters import find_cluster
from controlplane.clusters.operations.freezes import check_not_frozen
from controlplane.clusters.operations.groups import find_cluster_group
from controlplane.clusters.ports import ClusterStore, CommandStore
from controlplane.platform.context import CLUSTER, DESIRED_STATE, SERVICE, OperationContext
from controlplane.platform.names import check_text
from controlplane.platform.retry import retry_operations
from controlplane.services.model.ledger import LedgerEntry, LedgerStage
from controlplane.services.model.objects import DryRunResult
from controlplane.services.model.service import Confirmation, Service
from controlplane.services.operations.services import find_managed_service, find_service
from controlplane.services.ports import LedgerStore, PlanStore, ServiceStore
from core.errors import Conflict, Invalid
from core.spec.objects import ObjectRef

_MAX_CONFIRMED = 1000


@retry_operations
class AgentCommands:
    """Operations of users on agents."""

    def __init__(self, deps: OperationContext) -> None:
        self._context = deps

    async def confirm_deletions(
        self, actor: Actor, service_id: str, objects: Sequence[ObjectRef]
    ) -> Service:
        """Allows the agent to delete exactly these objects, all of which await confirmation.

        Works also for a service that is being removed and no longer listed. Conflict: an object
        does not await confirmation, so the list is out of date.
        """
        require_member(actor)
        if not 1 <= len(objects) <= _MAX_CONFIRMED:
            raise Invalid(f"must contain 1 to {_MAX_CONFIRMED} objects", field="objects")
        async with self._context.store.write() as tx:
            service = await find_managed_service(tx, service_id, going=True)
            require(actor, Verb.WRITE, service.target)
            await check_not_frozen(tx, service.cluster_id)
            waiting = {pending.key: pending for pending in service.observed.awaiting}
            if unknown := [str(name) for name in objects if name.key not in waiting]:
                raise Conflict(f"not awaiting confirmation: {', '.join(unknown[:5])}")
            sequence = service.desired.generation + 1
            confirmed = Confirmation(sequence, tuple(waiting[name.key] for name in objects))
            await tx[ServiceStore].change(service.id, generation=sequence, confirmed=confirmed)
            names = [str(name) for name in confirmed.objects]
            await tx[LedgerStore].append([self._entry(service, sequence, actor, names)])
            await self._context.audit(
                tx, actor, "confirmDeletions", service.name, service.id, objects=names[:100]
            )
        self._wake(service)
        return service

    async def terminate(self, actor: Actor, service_id: str) -> Service:
        """Tells the agent to stop applying the service, including its hooks."""
        require_member(actor)
        async with self._context.store.write() as tx:
            service = await find_service(tx, service_id)
            require(actor, Verb.WRITE, service.target)
            await tx[CommandStore].add(
                Command(
                    self._context.new_id(),
                    service.cluster_id,
                    CommandKind.TERMINATE,
                    self._context.clock.now(),
                    service.id,
                )
            )
            await self._context.audit(tx, actor, "terminateService", service.name, service.id)
        self._wake(service)
        return service

    async def upgrade_agent(
        self, actor: Actor, cluster_id: str, version: str, image: str
    ) -> Cluster:
        """Upgrades a cluster's agent; the agent rolls back if the new version fails."""
        require_member(actor)
        wanted = _agent(version, image)
        async with self._context.store.write() as tx:
            cluster = await find_cluster(tx, cluster_id)
            require(actor, Verb.WRITE, cluster.target)
            await tx[CommandStore].add(self._upgrade(cluster, wanted))
            await self._context.audit(
                tx, actor, "upgradeAgent", cluster.handle, cluster.id, **wanted
            )
        self._wake_agents([cluster])
        return cluster

    async def upgrade_agents(
        self, actor: Actor, group_id: str, version: str, image: str, without: Collection[str] = ()
    ) -> list[Cluster]:
        """Like `upgrade_agent`, for all clusters of a group except those in `without`.

        Skips clusters whose tag keeps their agent. Forbidden: the actor may not change one of the
        clusters; then no agent is upgraded.
        """
        require_member(actor)
        wanted = _agent(version, image)
        async with self._context.store.write() as tx:
            group = await find_cluster_group(tx, group_id)
            require(actor, Verb.WRITE, group.target)
            clusters = [
                cluster
                for cluster in await tx[ClusterStore].select(ending_at=None)
                if group.holds(cluster)
                and not cluster.skips_agent_upgrades
                and cluster.id not in without
            ]
            for cluster in clusters:
                require(actor, Verb.WRITE, cluster.target)
            await tx[CommandStore].add_each(self._upgrade(cluster, wanted) for cluster in clusters)
            await self._context.audit(
                tx, actor, "upgradeAgents", group.name, group.id, clusters=len(clusters), **wanted
            )
        self._wake_agents(clusters)
        return clusters

    async def plan(self, actor: Actor, service_id: str) -> DryRunResult | None:
        """The result of a service's dry run; None if not reported yet, or if it is no dry run."""
        require_member(actor)
        async with self._context.store.read() as tx:
            service = await find_service(tx, service_id)
            require(actor, Verb.READ, service.target)
            plan = await tx[PlanStore].get(service_id)
        return (
            plan
            if plan and service.spec.dry_run and plan.sequence == service.desired.generation
            else None
        )

    def _upgrade(self, cluster: Cluster, wanted: Mapping[str, str]) -> Command:
        now = self._context.clock.now()
        return Command(self._context.new_id(), cluster.id, CommandKind.UPGRADE, now, payload=wanted)

    def _wake_agents(self, clusters: Iterable[Cluster]) -> None:
        for cluster in clusters:
            self._context.bus.publish(DESIRED_STATE, f"{cluster.id}/upgrade")
            self._context.bus.publish(CLUSTER, cluster.id)

    def _entry(
        self, service: Service, sequence: int, actor: Actor, names: list[str]
    ) -> LedgerEntry:
        return LedgerEntry(
            service_id=service.id,
            cluster_id=service.cluster_id,
            stage=LedgerStage.CONFIRMED,
            at=self._context.clock.now(),
            sequence=sequence,
            sha=service.desired.commit_sha,
            digest=service.desired.digest,
            revision_id=service.desired.revision_id,
            actor=actor.email or actor.name,
            message=f"deletion of {', '.join(names[:5])}"
            + (f" and {len(names) - 5} more" if len(names) > 5 else ""),
            detail={"objects": names[:1000]},
        )

    def _wake(self, service: Service) -> None:
        self._context.bus.publish(SERVICE, service.id)
        self._context.bus.publish(DESIRED_STATE, f"{service.cluster_id}/{service.id}")


def _agent(version: str, image: str) -> dict[str, str]:
    """Version and image for an upgrade. Invalid: a value is not allowed."""
    return {
        "version": check_text(version, "version", 64),
        "image": check_text(image, "image", 1024),
    }
