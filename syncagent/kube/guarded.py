"""The API server behind the cluster's own allow-list, which covers every write."""

from core.runtime.clock import Clock
from core.spec.objects import ObjectRef
from syncagent.domain.managed_fields import Entry
from syncagent.domain.objects import KubeObject
from syncagent.kube.client import KubeClient
from syncagent.kube.cluster import KubeCluster
from syncagent.ports import Allowed, Deletion, Notice


class GuardedCluster(KubeCluster):
    """Raises Invalid, before any request, for an object that must not be written here."""

    def __init__(self, client: KubeClient, clock: Clock, allowed: Allowed) -> None:
        super().__init__(client, clock)
        self._allowed = allowed

    async def apply(
        self, ref: ObjectRef, body: KubeObject, *, force: bool, dry_run: bool = False
    ) -> KubeObject:
        self._allowed(ref)
        return await super().apply(ref, body, force=force, dry_run=dry_run)

    async def delete(self, ref: ObjectRef, live: KubeObject, *, orphan: bool = False) -> Deletion:
        self._allowed(ref)
        return await super().delete(ref, live, orphan=orphan)

    async def replace_managed_fields(
        self, ref: ObjectRef, live: KubeObject, entries: list[Entry]
    ) -> KubeObject:
        self._allowed(ref)
        return await super().replace_managed_fields(ref, live, entries)

    async def merge(self, ref: ObjectRef, patch: KubeObject) -> None:
        self._allowed(ref)
        await super().merge(ref, patch)

    async def tell(self, notice: Notice) -> None:
        """Writes an event; an event is allowed wherever its object is."""
        self._allowed(notice.ref)
        await super().tell(notice)
