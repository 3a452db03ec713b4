"""Removes deliveries of deleted cluster sources from their management clusters."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from controlplane.access.operations.scopes import actor_of_user
from controlplane.access.ports import UserStore
from controlplane.authorization import Actor
from controlplane.cluster_sources.model.delivery import RESOURCE_SETS, AgentDelivery
from controlplane.cluster_sources.model.inventory import APIS, InventoryObject
from controlplane.cluster_sources.model.members import ClusterSourceMember
from controlplane.cluster_sources.model.source import ClusterSource, InventoryKind
from controlplane.cluster_sources.operations.deliveries import delete_delivery, find_version
from controlplane.cluster_sources.ports import ClusterSourceMemberStore, ManagementCluster
from controlplane.clusters.ports import ClusterStore
from controlplane.platform.context import Change, OperationContext
from controlplane.platform.jobs import Job
from controlplane.platform.ports import JobStore
from core.errors import Conflict, NotFound
from core.json_object import JsonMapping

CLEAN_UP: Final = "clean-up-cluster-source"
"""Kind of the job that follows the deletion of a source."""


async def request_clean_up(
    tx: Change, source: ClusterSource, delivered: Sequence[ClusterSourceMember]
) -> None:
    """Schedules the removal of what the source has delivered to clusters without an agent."""
    payload = {
        "source": source.name,
        "cluster": source.settings.cluster_id,
        "account": source.settings.service_account_id,
        "objects": [[row.uid, row.namespace, row.name] for row in delivered],
    }
    key, now = f"cluster-source-clean-up/{source.id}", tx.context.clock.now()
    await tx[JobStore].enqueue(Job(tx.context.new_id(), CLEAN_UP, key, now, payload))


class DeliveryCleanUp:
    """Removes deliveries as the service account of the deleted source."""

    def __init__(self, context: OperationContext, management: ManagementCluster) -> None:
        self._context = context
        self._management = management

    async def run(self, job: Job) -> None:
        """Removes the objects that a job names. Unavailable: the cluster does not answer.

        Objects that another source has delivered to again, under the same names, stay.
        """
        uids = [uid for uid, _, _ in job.payload["objects"]]
        async with self._context.store.read() as tx:
            cluster = await tx[ClusterStore].get(str(job.payload["cluster"]))
            redelivered = await tx[ClusterSourceMemberStore].delivered(uids)
        if cluster is None:
            return
        actor, handle = await self._account_actor(job.payload), cluster.handle
        apis = [RESOURCE_SETS, APIS[InventoryKind.CLUSTER_API]]
        sets, objects = [await find_version(self._management, actor, handle, api) for api in apis]
        group = APIS[InventoryKind.CLUSTER_API].group
        redelivered_uids = {row.uid for row in redelivered}
        for uid, namespace, name in job.payload["objects"]:
            item = InventoryObject(uid, namespace, name, {}, f"{group}/{objects}")
            delivery = AgentDelivery(str(job.payload["source"]), item, sets)
            if uid not in redelivered_uids:
                try:
                    await delete_delivery(self._management, actor, handle, delivery)
                except NotFound:
                    # The cluster was deleted, and its objects with it.
                    continue

    async def _account_actor(self, payload: JsonMapping) -> Actor:
        now = self._context.clock.now()
        async with self._context.store.read() as tx:
            account = await tx[UserStore].get(str(payload["account"]))
            if account is None or account.disabled_at is not None:
                raise Conflict("the service account of the deleted source is disabled")
            actor = await actor_of_user(tx, account, now)
        return replace(actor, cause=(("clusterSource", str(payload["source"])),))
