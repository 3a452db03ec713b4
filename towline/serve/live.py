"""Which bundles the control plane may still ask the git cache for."""

from collections import defaultdict
from collections.abc import Callable, Collection

from controlplane.domain.services import Revision
from controlplane.ports import Store

_ROLLBACKS = 10
"""So many of the newest revisions of each service can be rolled back to without a render."""

_SERVICES_AT_ONCE = 200


class StoreLive:
    """The git cache's `LiveDigests`: what services want, and what they may be rolled back to.

    `store` gives the store, which is opened after the git cache is built.
    """

    def __init__(self, store: Callable[[], Store]) -> None:
        self._store = store

    async def live(self) -> Collection[str] | None:
        """As `LiveDigests.live`. Unavailable: the store is away."""
        async with self._store().read() as tx:
            services = await tx.services.select()
        digests = {service.digest for service in services if service.digest}
        ids = [service.id for service in services]
        for start in range(0, len(ids), _SERVICES_AT_ONCE):
            async with self._store().read() as tx:
                some = ids[start : start + _SERVICES_AT_ONCE]
                digests |= _newest(await tx.revisions.select(service_id=some))
        return digests


def _newest(revisions: Collection[Revision]) -> set[str]:
    of: dict[str, list[Revision]] = defaultdict(list)
    for revision in sorted(revisions, key=lambda one: one.inserted_at, reverse=True):
        of[revision.service_id].append(revision)
    return {one.digest for several in of.values() for one in several[:_ROLLBACKS]}
