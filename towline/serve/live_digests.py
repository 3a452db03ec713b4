"""Lists the bundles that the control plane still needs from the git cache."""

from collections import defaultdict
from collections.abc import Collection

from controlplane.platform.ports import Store
from controlplane.services.model.service import Revision
from controlplane.services.ports import RevisionStore, ServiceStore

_KEPT_REVISIONS = 10
"""Number of newest revisions of each service that can be rolled back to without a render."""

_BATCH_SIZE = 200


class StoreLiveDigests:
    """The git cache's `LiveDigests`: current bundles of services, and bundles for rollbacks."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def live_digests(self) -> Collection[str] | None:
        """See `LiveDigests.live_digests`. Unavailable: the store is not reachable."""
        async with self._store.read() as tx:
            services = await tx[ServiceStore].all()
        digests = {service.desired.digest for service in services if service.desired.digest}
        ids = [service.id for service in services]
        for start in range(0, len(ids), _BATCH_SIZE):
            async with self._store.read() as tx:
                batch = ids[start : start + _BATCH_SIZE]
                digests |= _newest_digests(await tx[RevisionStore].of_services(batch))
        return digests


def _newest_digests(revisions: Collection[Revision]) -> set[str]:
    by_service: dict[str, list[Revision]] = defaultdict(list)
    for revision in sorted(revisions, key=lambda revision: revision.inserted_at, reverse=True):
        by_service[revision.service_id].append(revision)
    return {
        revision.digest
        for newest_first in by_service.values()
        for revision in newest_first[:_KEPT_REVISIONS]
    }
