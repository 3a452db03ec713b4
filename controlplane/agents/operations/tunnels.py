"""Assigns agents' tunnels to replicas of the control plane, with epochs."""

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

from controlplane.agents.model.replicas import Replica
from controlplane.agents.ports import ReplicaStore, TunnelStore
from controlplane.clusters.ports import ClusterStore
from controlplane.platform.context import TUNNEL, StoreContext
from controlplane.platform.parts import column_values
from controlplane.platform.ports import Transaction
from core.errors import Conflict, LimitExceeded, TowlineError
from core.identity import ClusterId
from core.runtime.batcher import Batcher
from core.spec.tunnels import Tunnel

_REPLICA_EXPIRY = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class TunnelClaim:
    """A tunnel to cluster `id` is ready at a replica; see `Tunnel`."""

    id: ClusterId
    replica_id: str
    instance: str
    peer: str


class TunnelClaims:
    """Operations of replicas of the control plane; users do not call them."""

    def __init__(self, context: StoreContext) -> None:
        self._context = context
        self._claims: Batcher[TunnelClaim, Tunnel] = Batcher(self._claim_batch)
        self._releases: Batcher[tuple[ClusterId, int], None] = Batcher(self._release_batch)

    async def beat(self, id: str, address: str) -> list[Replica]:
        """Stores the heartbeat of a replica; returns all known replicas."""
        now = self._context.clock.now()
        replica = Replica(id, address, now)
        async with self._context.store.write() as tx:
            if not await tx[ReplicaStore].beat(id, address, now):
                await tx[ReplicaStore].add(replica)
            await tx[ReplicaStore].remove_before("heartbeat", now - _REPLICA_EXPIRY)
            return await tx[ReplicaStore].all()

    async def leave(self, id: str) -> None:
        """Removes a replica that shuts down, and releases its tunnels."""
        async with self._context.store.write() as tx:
            tunnels = await tx[TunnelStore].of_replica(id)
            for tunnel in tunnels:
                await tx[TunnelStore].release(tunnel.id)
            await tx[ReplicaStore].remove(id)
        for tunnel in tunnels:
            self._context.bus.publish(TUNNEL, f"{tunnel.id} ")

    async def claim(
        self, cluster_id: ClusterId, replica_id: str, instance: str, peer: str
    ) -> Tunnel:
        """Claims a ready tunnel; returns its row with a new epoch.

        LimitExceeded: two agents compete for the cluster; this also sets the cluster's alarm.
        """
        return await self._claims.submit(TunnelClaim(cluster_id, replica_id, instance, peer))

    async def release(self, cluster_id: ClusterId, epoch: int) -> None:
        """Releases a tunnel that ended; has no effect after a newer claim."""
        await self._releases.submit((cluster_id, epoch))

    async def find(self, cluster_id: ClusterId) -> Tunnel | None:
        """The row of a cluster's tunnel; None if no replica holds it."""
        async with self._context.store.read() as tx:
            row = await tx[TunnelStore].get(cluster_id)
        return row if row is not None and row.replica_id is not None else None

    async def moved_links(self, replica_id: str, epochs: Mapping[ClusterId, int]) -> list[Tunnel]:
        """The tunnels among `epochs` (by cluster id) that the replica no longer owns."""
        async with self._context.store.read() as tx:
            owned = {tunnel.id: tunnel for tunnel in await tx[TunnelStore].of_replica(replica_id)}
            uncertain = [
                id for id, epoch in epochs.items() if id not in owned or owned[id].epoch != epoch
            ]
            rows = await tx[TunnelStore].by_ids(uncertain) if uncertain else []
        return [row for row in rows if row.epoch > epochs[row.id]]

    async def _claim_batch(self, claims: Sequence[TunnelClaim]) -> list[Tunnel | TowlineError]:
        now = self._context.clock.now()
        results: list[Tunnel | TowlineError] = []
        claimed: dict[str, Tunnel] = {}
        async with self._context.store.write() as tx:
            stored = {
                tunnel.id: tunnel
                for tunnel in await tx[TunnelStore].lock({claim.id for claim in claims})
            }
            for claim in claims:
                before = claimed.get(claim.id) or stored.get(claim.id) or Tunnel(claim.id, now)
                try:
                    after = before.claimed(claim.replica_id, claim.instance, claim.peer, now)
                except LimitExceeded as error:
                    await tx[ClusterStore].set_alarm(claim.id, error.message)
                    results.append(error)
                else:
                    claimed[claim.id] = after
                    results.append(after)
            await _write_claims(tx, claimed, stored)
        for tunnel in claimed.values():
            self._context.bus.publish(TUNNEL, f"{tunnel.id} {tunnel.replica_id}")
        return results

    async def _release_batch(self, ended: Sequence[tuple[ClusterId, int]]) -> list[None]:
        async with self._context.store.write() as tx:
            rows = await tx[TunnelStore].lock({id for id, _ in ended})
            released = [row.id for row in rows if row.replica_id and (row.id, row.epoch) in ended]
            await tx[TunnelStore].change_each({id: {"replica_id": None} for id in released})
        for id in released:
            self._context.bus.publish(TUNNEL, f"{id} ")
        return [None] * len(ended)


async def _write_claims(
    tx: Transaction, claimed: Mapping[str, Tunnel], stored: Container[str]
) -> None:
    """Writes claims in the order of ids.

    Conflict: another replica claimed a new agent meanwhile.
    """
    await tx[TunnelStore].change_each(
        {id: column_values(tunnel) for id, tunnel in claimed.items() if id in stored}
    )
    try:
        for id, tunnel in sorted(claimed.items()):
            if id not in stored:
                await tx[TunnelStore].add(tunnel)
    except Conflict as error:
        raise Conflict("two replicas claimed a new agent at the same time: try again") from error
