"""Which replica holds which agent's link: claimed by epochs, told to the others."""

from collections.abc import Mapping
from datetime import timedelta

from controlplane.domain.tunnels import Replica, Tunnel
from controlplane.ports import Transaction
from controlplane.usecases.deps import TUNNEL, Deps
from fleet.errors import Conflict, LimitExceeded
from fleet.identity import ClusterId

_FORGOTTEN_AFTER = timedelta(days=1)


class Tunnels:
    """Verbs of replicas of the control plane. No user asks for these."""

    def __init__(self, deps: Deps) -> None:
        self._deps = deps

    async def beat(self, id: str, address: str) -> list[Replica]:
        """Say that a replica lives; all that are known."""
        now = self._deps.clock.now()
        me = Replica(id, address, now)
        async with self._deps.store.write() as tx:
            if not await tx.replicas.change(id, address=address, heartbeat=now):
                await tx.replicas.add(me)
            await tx.replicas.remove_before("heartbeat", now - _FORGOTTEN_AFTER)
            return await tx.replicas.select()

    async def leave(self, id: str) -> None:
        """A replica ends; whatever it still holds is nobody's."""
        async with self._deps.store.write() as tx:
            held = await tx.tunnels.select(replica_id=id)
            for one in held:
                await tx.tunnels.change(one.id, replica_id=None)
            await tx.replicas.remove(id)
        for one in held:
            self._deps.bus.publish(TUNNEL, f"{one.id} ")

    async def claim(
        self, cluster_id: ClusterId, replica_id: str, instance: str, peer: str
    ) -> Tunnel:
        """A link is ready: the row with its new epoch.

        LimitExceeded: two agents fight over the cluster; people are told, too.
        """
        try:
            async with self._deps.store.write() as tx:
                after = await self._claimed(tx, cluster_id, replica_id, instance, peer)
        except LimitExceeded as error:
            async with self._deps.store.write() as tx:
                await tx.clusters.change(cluster_id, alarm=error.message)
            raise
        self._deps.bus.publish(TUNNEL, f"{cluster_id} {replica_id}")
        return after

    async def release(self, cluster_id: ClusterId, epoch: int) -> None:
        """A link has ended; nothing happens if a newer one has been claimed."""
        async with self._deps.store.write() as tx:
            row = await tx.tunnels.get(cluster_id)
            if row is None or row.epoch != epoch or row.replica_id is None:
                return
            await tx.tunnels.change(cluster_id, replica_id=None)
        self._deps.bus.publish(TUNNEL, f"{cluster_id} ")

    async def find(self, cluster_id: ClusterId) -> Tunnel | None:
        """Who holds a cluster's link; None: nobody."""
        async with self._deps.store.read() as tx:
            row = await tx.tunnels.get(cluster_id)
        return row if row is not None and row.replica_id is not None else None

    async def lost(self, replica_id: str, held: Mapping[ClusterId, int]) -> list[Tunnel]:
        """Of the links that a replica holds with these epochs, those that are no longer its own."""
        async with self._deps.store.read() as tx:
            mine = {one.id: one for one in await tx.tunnels.select(replica_id=replica_id)}
            doubtful = [
                id for id, epoch in held.items() if id not in mine or mine[id].epoch != epoch
            ]
            rows = await tx.tunnels.select(id=doubtful) if doubtful else []
        return [row for row in rows if row.epoch > held[row.id]]

    async def _claimed(
        self, tx: Transaction, cluster_id: ClusterId, replica_id: str, instance: str, peer: str
    ) -> Tunnel:
        now = self._deps.clock.now()
        before = await tx.tunnels.get(cluster_id)
        after = (before or Tunnel(cluster_id, now)).claimed(replica_id, instance, peer, now)
        if before is not None:
            await tx.tunnels.put(after)
            return after
        try:
            await tx.tunnels.add(after)
        except Conflict as error:
            raise Conflict("two replicas have claimed a new agent at once: try again") from error
        return after
