"""Revokes tokens of clusters."""

from datetime import datetime

from controlplane.access.ports import TokenStore
from controlplane.platform.ports import Transaction


async def revoke_tokens(tx: Transaction, cluster_id: str, now: datetime) -> list[str]:
    """Revokes all deploy tokens of a cluster; returns their ids."""
    live = await tx[TokenStore].select(cluster_id=cluster_id, revoked_at=None)
    for token in live:
        await tx[TokenStore].change(token.id, revoked_at=now)
    return [token.id for token in live]
