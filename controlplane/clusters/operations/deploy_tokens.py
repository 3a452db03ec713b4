"""Reads deploy tokens of agents; agents that connect at the same time share one transaction."""

from collections.abc import Mapping, Sequence

from controlplane.access.model.users import Token
from controlplane.access.ports import TokenStore
from controlplane.clusters.ports import ClusterStore
from controlplane.platform.ports import Store
from core.identity import ClusterId
from core.runtime.batcher import Batcher

DeployTokenOwner = tuple[Token, ClusterId | None]


class DeployTokenReader:
    """Looks up agents' tokens without a cache, so that revoked tokens are refused at once."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._batches: Batcher[str, DeployTokenOwner | None] = Batcher(self._read_batch)

    async def find(self, hash: str) -> DeployTokenOwner | None:
        """The agent token with this hash and its cluster, if that exists. None: unknown token.

        Unavailable: the store does not answer.
        """
        return await self._batches.submit(hash)

    async def _read_batch(self, hashes: Sequence[str]) -> list[DeployTokenOwner | None]:
        async with self._store.read() as tx:
            rows = await tx[TokenStore].by_hashes(hashes)
            cluster_ids = {row.cluster_id for row in rows if row.cluster_id is not None}
            existing = await tx[ClusterStore].column("id", cluster_ids)
        owners = {row.hash: (row, _cluster_id(row, existing)) for row in rows}
        return [owners.get(hash) for hash in hashes]


def _cluster_id(row: Token, existing: Mapping[str, str]) -> ClusterId | None:
    id = existing.get(row.cluster_id or "")
    return None if id is None else ClusterId(id)
