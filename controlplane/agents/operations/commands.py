"""Commands of users to agents: confirm deletions, stop, upgrade, freeze, read dry-run plans."""

from collections.abc import Collection, Sequence
from dataclasses import replace

from controlplane.agents.model.selections import selection_payload
from controlplane.agents.operations.upgrades import add_upgrades
from controlplane.authorization import Actor, Verb, require
from controlplane.clusters.model.cluster import Cluster
from controlplane.clusters.model.commands import CommandKind
from controlplane.clusters.operations.clusters import find_cluster
from controlplane.clusters.operations.commands import add_command
from controlplane.clusters.operations.freezes import check_not_frozen
from controlplane.clusters.operations.groups import find_cluster_group
from controlplane.clusters.ports import ClusterStore
from controlplane.platform.context import CLUSTER, DESIRED_STATE, ContextOperations
from controlplane.platform.limits import check_count
from controlplane.platform.names import check_text, join_names
from controlplane.platform.retry import retry_operations
from controlplane.services.model.ledger import LedgerEntry, LedgerStage
from controlplane.services.model.service import Confirmation, DryRunResult, Service
from controlplane.services.operations.generations import publish_service
from controlplane.services.operations.lookup import find_managed_service, find_service
from controlplane.services.ports import LedgerStore, PlanStore, ServiceStore
from core.errors import Conflict
from core.spec.objects import ObjectRef
from core.spec.statements.freeze import read_unverified
from core.spec.sync import ObjectSelection

_MAX_CONFIRMED = 1000
_MAX_SYNCED = 1000
_MAX_AUDITED = 100


@retry_operations
class AgentCommands(ContextOperations):
    """Operations of users on agents."""

    async def confirm_deletions(
        self, actor: Actor, service_id: str, objects: Sequence[ObjectRef]
    ) -> Service:
        """Allows the agent to delete exactly these objects, all of which await confirmation.

        Works also for a service that is being removed and no longer listed. Conflict: an object
        does not await confirmation, so the list is out of date.
        """
        async with self._context.change(actor, "confirmDeletions") as tx:
            service = await find_managed_service(tx, service_id, deleted=True)
            tx.authorize(Verb.WRITE, service.target)
            check_count(len(objects), "objects", _MAX_CONFIRMED, least=1)
            await check_not_frozen(tx, service.cluster_id)
            waiting = {pending.key: pending for pending in service.observed.awaiting}
            if unknown := [str(name) for name in objects if name.key not in waiting]:
                raise Conflict(f"not awaiting confirmation: {', '.join(unknown[:5])}")
            sequence = service.desired.generation + 1
            confirmed = Confirmation(sequence, tuple(waiting[name.key] for name in objects))
            await tx[ServiceStore].confirm(service.id, confirmed, sequence)
            names = [str(name) for name in confirmed.objects]
            await tx[LedgerStore].append(
                [self._confirmation_entry(service, sequence, actor, names)]
            )
            tx.audit(service.name, service.id, objects=names[:_MAX_AUDITED])
            publish_service(tx, service)
        return service

    async def sync_objects(
        self, actor: Actor, service_id: str, selection: ObjectSelection
    ) -> Service:
        """Has the agent sync only some objects of a service, without hooks.

        The agent refuses objects that do not belong to the service. The ledger has the result.
        Conflict: the service is paused or a dry run.
        """
        async with self._context.change(actor, "syncServiceObjects") as tx:
            service = await find_service(tx, service_id)
            tx.authorize(Verb.WRITE, service.target)
            check_count(len(selection.objects), "objects", _MAX_SYNCED, least=1)
            await check_not_frozen(tx, service.cluster_id)
            if service.spec.paused or service.spec.dry_run:
                reason = "is paused; resume it" if service.spec.paused else "is a dry run; end it"
                raise Conflict(f"service {service.name!r} {reason} first")
            payload = selection_payload(service, selection, actor.shown_name)
            await add_command(tx, service.cluster_id, CommandKind.SYNC_NOW, payload, service.id)
            names = [str(ref) for ref in selection.objects[:_MAX_AUDITED]]
            tx.audit(service.name, service.id, objects=names, prune=selection.prune)
            publish_service(tx, service)
        return service

    async def terminate(self, actor: Actor, service_id: str) -> Service:
        """Tells the agent to stop applying the service, including its hooks."""
        async with self._context.change(actor, "terminateService") as tx:
            service = await find_service(tx, service_id)
            tx.authorize(Verb.WRITE, service.target)
            payload = {"service": service.id_at_agent}
            await add_command(tx, service.cluster_id, CommandKind.TERMINATE, payload, service.id)
            tx.audit(service.name, service.id)
            publish_service(tx, service)
        return service

    async def upgrade_agent(
        self, actor: Actor, cluster_id: str, version: str, image: str
    ) -> Cluster:
        """Upgrades a cluster's agent; the agent rolls back if the new version fails."""
        async with self._context.change(actor, "upgradeAgent") as tx:
            cluster = await find_cluster(tx, cluster_id)
            tx.authorize(Verb.WRITE, cluster.target)
            agent = _checked_version(version, image)
            await add_upgrades(tx, [cluster], agent)
            tx.audit(cluster.handle, cluster.id, **agent)
        return cluster

    async def deliver_freeze_statement(
        self, actor: Actor, cluster_id: str, statement: str
    ) -> Cluster:
        """Passes a signed statement on to a cluster's agent, which checks the signature.

        Invalid: the text is no statement.
        """
        async with self._context.change(actor, "deliverFreezeStatement") as tx:
            cluster = await find_cluster(tx, cluster_id)
            tx.authorize(Verb.WRITE, cluster.target)
            order = read_unverified(statement)
            payload = {"statement": statement.strip()}
            await add_command(tx, cluster.id, CommandKind.FREEZE, payload)
            tx.publish(DESIRED_STATE, f"{cluster.id}/freeze")
            tx.publish(CLUSTER, cluster.id)
            tx.audit(cluster.handle, cluster.id, freeze=order.action, serial=order.serial)
        return cluster

    async def upgrade_agents(
        self, actor: Actor, group_id: str, version: str, image: str, without: Collection[str] = ()
    ) -> list[Cluster]:
        """Like `upgrade_agent`, for all clusters of a group except those in `without`.

        Skips clusters whose tag keeps their agent. Forbidden: the actor may not change one of the
        clusters; then no agent is upgraded.
        """
        async with self._context.change(actor, "upgradeAgents") as tx:
            group = await find_cluster_group(tx, group_id)
            tx.authorize(Verb.WRITE, group.target)
            clusters = [
                cluster
                for cluster in await tx[ClusterStore].not_ending()
                if group.contains(cluster)
                and not cluster.skips_agent_upgrades
                and cluster.id not in without
            ]
            for cluster in clusters:
                tx.authorize(Verb.WRITE, cluster.target)
            agent = _checked_version(version, image)
            await add_upgrades(tx, clusters, agent)
            tx.audit(group.name, group.id, clusters=len(clusters), **agent)
        return clusters

    async def plan(self, actor: Actor, service_id: str) -> DryRunResult | None:
        """The result of a service's dry run; None if not reported yet, or if it is no dry run."""
        async with self._context.read(actor) as tx:
            service = await find_service(tx, service_id)
            require(actor, Verb.READ, service.target)
            plan = await tx[PlanStore].get(service_id)
        return (
            plan
            if plan and service.spec.dry_run and plan.sequence == service.desired.generation
            else None
        )

    def _confirmation_entry(
        self, service: Service, sequence: int, actor: Actor, names: list[str]
    ) -> LedgerEntry:
        entry = LedgerEntry.of(
            service,
            LedgerStage.CONFIRMED,
            self._context.clock.now(),
            actor=actor.shown_name,
            message=f"deletion of {join_names(names)}",
        )
        return replace(entry, sequence=sequence, detail={"objects": names[:1000]})


def _checked_version(version: str, image: str) -> dict[str, str]:
    """Version and image for an upgrade. Invalid: a value is not allowed."""
    return {
        "version": check_text(version, "version", 64),
        "image": check_text(image, "image", 1024),
    }
