"""Brings agents to clusters of Cluster API: a bootstrap token, and a ClusterResourceSet with it.

The control plane writes only into the management cluster. Cluster API, which has the kubeconfig of
the new cluster, applies the agent's manifests there.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from controlplane.authorization import Actor, Verb
from controlplane.cluster_sources.model.delivery import RESOURCE_SETS, AgentDelivery
from controlplane.cluster_sources.model.inventory import (
    InventoryApi,
    InventoryObject,
    served_version,
)
from controlplane.cluster_sources.model.members import ClusterSourceMember, MemberState
from controlplane.cluster_sources.model.source import ClusterSource
from controlplane.cluster_sources.ports import (
    AgentManifests,
    ClusterSourceMemberStore,
    ManagementCluster,
)
from controlplane.clusters.model.bootstrap_tokens import BootstrapToken
from controlplane.clusters.model.cluster import Cluster
from controlplane.clusters.operations.agent_settings import effective_settings
from controlplane.clusters.operations.bootstrap_tokens import issue_for_cluster
from controlplane.clusters.ports import BootstrapTokenStore
from controlplane.platform.context import OperationContext
from core.errors import NotFound, TowlineError

MAX_JOINING = 50
"""Maximum number of clusters of a source whose agents are on their way at the same time."""
TOKEN_LIFE = timedelta(hours=24)
"""Life of a bootstrap token. A cluster that has not joined by then gets another one."""
_MAX_MESSAGE = 500


@dataclass(slots=True)
class SourceRun:
    """One reconciliation of a source, as its service account."""

    source: ClusterSource
    management: Cluster
    actor: Actor
    now: datetime
    objects: Sequence[InventoryObject] = ()
    """Selected objects."""
    members: dict[str, ClusterSourceMember] = field(default_factory=dict)
    """Known objects by their UIDs."""
    clusters: dict[str, Cluster] = field(default_factory=dict)
    """Registered clusters by their IDs."""


class AgentDeliveries:
    """Delivers agents to clusters that wait for one, and cleans up after they have connected."""

    def __init__(
        self, context: OperationContext, management: ManagementCluster, manifests: AgentManifests
    ) -> None:
        self._context = context
        self._management = management
        self._manifests = manifests

    async def deliver(self, run: SourceRun) -> bool:
        """Delivers to waiting clusters; returns whether some wait for the next run.

        The reason for which a delivery failed becomes the message of the object.
        """
        members = run.members
        by_uid = {item.uid: item for item in run.objects if not item.is_ending}
        connected = [
            members[uid]
            for uid in by_uid
            if uid in members and members[uid].token_id and not _is_waiting(members[uid])
        ]
        waiting = [members[uid] for uid in by_uid if uid in members and _is_waiting(members[uid])]
        live_tokens = await self._live_tokens(waiting, run.now)
        undelivered = [row for row in waiting if row.token_id not in live_tokens]
        capacity = max(0, MAX_JOINING - len(live_tokens))
        if not connected and not undelivered[:capacity]:
            return False
        try:
            handle = run.management.handle
            version = await find_version(self._management, run.actor, handle, RESOURCE_SETS)
        except TowlineError as error:
            for row in undelivered[:capacity]:
                members[row.uid] = await self._save_member(_with_delivery_error(row, error))
            return False
        for row in connected:
            delivery = AgentDelivery(run.source.name, by_uid[row.uid], version)
            members[row.uid] = await self._clean_up(run, delivery, row)
        for row in undelivered[:capacity]:
            delivery = AgentDelivery(run.source.name, by_uid[row.uid], version)
            cluster = run.clusters[row.cluster_id or ""]
            members[row.uid] = await self._deliver_agent(run, delivery, row, cluster)
        return len(undelivered) > capacity and capacity > 0

    async def _live_tokens(self, rows: Iterable[ClusterSourceMember], now: datetime) -> set[str]:
        """Returns the ids of delivered tokens that are still valid."""
        ids = [row.token_id for row in rows if row.token_id]
        async with self._context.store.read() as tx:
            tokens = await tx[BootstrapTokenStore].by_ids(ids)
        return {token.id for token in tokens if _is_valid(token, now)}

    async def _deliver_agent(
        self, run: SourceRun, delivery: AgentDelivery, row: ClusterSourceMember, cluster: Cluster
    ) -> ClusterSourceMember:
        """Creates a token, and the objects that bring it to the cluster.

        The row names the token only afterwards, so that an interrupted delivery is repeated.
        """
        handle, actor = run.management.handle, run.actor
        token, secret = await self._issue_token(run, row, cluster)
        try:
            async with self._context.store.read() as tx:
                settings = (await effective_settings(tx, [cluster])).get(cluster.id)
            documents = await self._manifests.render(cluster, secret, settings)
            management = self._management
            await management.apply(actor, handle, delivery.secret_path, delivery.secret(documents))
            await management.apply(actor, handle, delivery.set_path, delivery.resource_set)
            await management.patch(
                actor, handle, delivery.object_path, delivery.label(selected=True)
            )
        except TowlineError as error:
            return await self._save_member(_with_delivery_error(row, error), ended_token=token.id)
        return await self._save_member(
            replace(row, message="", token_id=token.id), ended_token=row.token_id
        )

    async def _issue_token(
        self, run: SourceRun, row: ClusterSourceMember, cluster: Cluster
    ) -> tuple[BootstrapToken, str]:
        async with self._context.change(run.actor, "createBootstrapToken") as tx:
            tx.authorize(Verb.WRITE, cluster.target)
            token, secret = await issue_for_cluster(tx, cluster, TOKEN_LIFE)
            tx.audit(token.name, token.id, object=row.title)
        return token, secret

    async def _clean_up(
        self, run: SourceRun, delivery: AgentDelivery, row: ClusterSourceMember
    ) -> ClusterSourceMember:
        """Deletes what was delivered; the agent has a deploy token of its own."""
        handle, actor = run.management.handle, run.actor
        try:
            await delete_delivery(self._management, actor, handle, delivery)
        except TowlineError as error:
            message = f"cannot delete the delivered token: {error.message}"[:_MAX_MESSAGE]
            return await self._save_member(replace(row, message=message))
        return await self._save_member(
            replace(row, message="", token_id=None), ended_token=row.token_id
        )

    async def _save_member(
        self, row: ClusterSourceMember, ended_token: str | None = None
    ) -> ClusterSourceMember:
        async with self._context.store.write() as tx:
            await tx[ClusterSourceMemberStore].put(row)
            if ended_token:
                await tx[BootstrapTokenStore].remove_each([ended_token])
        return row


async def delete_delivery(
    management: ManagementCluster, actor: Actor, handle: str, delivery: AgentDelivery
) -> None:
    """Deletes the objects that bring an agent to a cluster, and the label that selects it."""
    await management.delete(actor, handle, delivery.set_path)
    await management.delete(actor, handle, delivery.secret_path)
    await management.patch(actor, handle, delivery.object_path, delivery.label(selected=False))


async def find_version(
    management: ManagementCluster, actor: Actor, handle: str, api: InventoryApi
) -> str:
    """Returns the version of an API that the management cluster serves. NotFound: none."""
    try:
        group = await management.read(actor, handle, f"/apis/{api.group}")
    except NotFound:
        raise NotFound(
            f"cluster {handle!r} does not serve {api.group}: install it, or choose another cluster"
        ) from None
    return served_version(api, group)


def _with_delivery_error(row: ClusterSourceMember, error: TowlineError) -> ClusterSourceMember:
    return replace(row, message=f"cannot deliver the agent: {error.message}"[:_MAX_MESSAGE])


def _is_waiting(row: ClusterSourceMember) -> bool:
    return row.state is MemberState.JOINING


def _is_valid(token: BootstrapToken, now: datetime) -> bool:
    """True while an agent can join with the token, or has joined and not connected yet."""
    return token.revoked_at is None and token.expires_at > now
