"""Reconciles one cluster source: reads its objects, registers their clusters, and lets them join.

A run is idempotent. Each cluster has transactions of its own, so that one conflict stops no other.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta

from controlplane.access.operations.scopes import actor_of_user
from controlplane.access.operations.source_runs import account_of
from controlplane.authorization import Verb
from controlplane.cluster_sources.model.inventory import (
    APIS,
    InventoryObject,
    cluster_name,
    cluster_tags,
    inventory_objects,
    list_path,
    retagged,
    sorted_objects,
)
from controlplane.cluster_sources.model.members import ClusterSourceMember, MemberState, state_of
from controlplane.cluster_sources.model.source import (
    ClusterSource,
    ClusterSourceResult,
    ClusterSourceStatus,
    GonePolicy,
    InventoryKind,
)
from controlplane.cluster_sources.operations.deliveries import (
    AgentDeliveries,
    SourceRun,
    find_version,
)
from controlplane.cluster_sources.operations.sources import ClusterSources
from controlplane.cluster_sources.ports import ClusterSourceMemberStore, ManagementCluster
from controlplane.clusters.model.cluster import Cluster
from controlplane.clusters.operations.clusters import (
    ClusterChange,
    Clusters,
    check_tags,
    register_cluster,
)
from controlplane.clusters.ports import BootstrapTokenStore, ClusterStore
from controlplane.platform.context import OperationContext
from controlplane.platform.jobs import Job
from controlplane.platform.parts import column_values
from controlplane.platform.retry import retry_on_collision
from core.errors import Conflict, Forbidden, Invalid, LimitExceeded, NotFound, TowlineError

MAX_REGISTRATIONS = 100
"""Maximum number of clusters that one run registers; the next run follows at once."""
_RETRY = timedelta(seconds=30)
_SOON = timedelta(seconds=1)
_MAX_MESSAGE = 500
_REFUSALS = (Conflict, Forbidden, Invalid, LimitExceeded, NotFound)


@dataclass(frozen=True, slots=True)
class _Outcome:
    """The result of a run, and whether it left clusters for the next one."""

    result: ClusterSourceResult
    message: str = ""
    has_more: bool = False


class ClusterSourceReconciler:
    """Reconciles cluster sources as their service accounts."""

    def __init__(
        self,
        context: OperationContext,
        clusters: Clusters,
        management: ManagementCluster,
        deliveries: AgentDeliveries,
    ) -> None:
        self.runs = ClusterSources.runs(context)
        self._context = context
        self._clusters = clusters
        self._management = management
        self._deliveries = deliveries

    async def run(self, job: Job) -> None:
        """Reconciles the source of a job, and schedules the next run."""
        source = await self.runs.begin(job)
        if source is None:
            return
        outcome = await self._reconcile(source)
        interval = timedelta(seconds=source.settings.interval_s)
        delay = min(interval, _RETRY) if outcome.result is ClusterSourceResult.FAILED else interval
        now = self._context.clock.now()
        status = ClusterSourceStatus(outcome.result, outcome.message, now)
        await self.runs.end(job, status, _SOON if outcome.has_more else delay)

    async def _reconcile(self, source: ClusterSource) -> _Outcome:
        try:
            run = await self._start_run(source)
            run.objects = await self._read_objects(run)
            return await self._reconcile_run(run)
        except TowlineError as error:
            return _Outcome(ClusterSourceResult.FAILED, error.message[:_MAX_MESSAGE])

    async def _start_run(self, source: ClusterSource) -> SourceRun:
        """Returns the management cluster, and the present permissions of the service account."""
        now = self._context.clock.now()
        async with self._context.store.read() as tx:
            management = await tx[ClusterStore].get(source.settings.cluster_id)
            if management is None:
                raise NotFound("the management cluster was deleted: choose another one")
            account = await account_of(tx, source)
            actor = await actor_of_user(tx, account, now)
        if not actor.may(Verb.WRITE, source.target):
            raise Conflict(f"service account {account.email} may not register clusters any more")
        actor = replace(actor, cause=(("clusterSource", source.name),))
        return SourceRun(source, management, actor, now)

    async def _read_objects(self, run: SourceRun) -> list[InventoryObject]:
        """Reads the selected objects. LimitExceeded: there are many times more than clusters."""
        settings, handle = run.source.settings, run.management.handle
        api = APIS[settings.inventory]
        version = await find_version(self._management, run.actor, handle, api)
        objects: list[InventoryObject] = []
        after = ""
        while True:
            path = list_path(api, version, settings, after)
            page = await self._management.read(run.actor, handle, path)
            objects += inventory_objects(settings.inventory, version, page)
            after = str((page.get("metadata") or {}).get("continue") or "")
            if not after:
                return sorted_objects(objects)
            if len(objects) > 2 * settings.max_clusters:
                raise LimitExceeded(
                    f"more than {len(objects):,} objects match: narrow the selector, or raise "
                    f"maxClusters ({settings.max_clusters:,})"
                )

    async def _reconcile_run(self, run: SourceRun) -> _Outcome:
        async with self._context.store.read() as tx:
            rows = await tx[ClusterSourceMemberStore].of_source(run.source.id)
            ids = [row.cluster_id for row in rows if row.cluster_id]
            clusters = await tx[ClusterStore].by_ids(ids)
        run.clusters = {row.id: row for row in clusters}
        run.members = {row.uid: row for row in rows}
        problems = await self._remove_gone(run)
        has_more, limit_problems = await self._register_new(run)
        problems += limit_problems
        await self._update_members(run)
        if run.source.settings.inventory is InventoryKind.CLUSTER_API:
            has_more |= await self._deliveries.deliver(run)
        problems += [f"{row.title}: {row.message}" for row in run.members.values() if row.message]
        if problems:
            suffix = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
            message = problems[0][:_MAX_MESSAGE] + suffix
            return _Outcome(ClusterSourceResult.INCOMPLETE, message, has_more)
        return _Outcome(ClusterSourceResult.SYNCED, "", has_more)

    # Registration

    async def _register_new(self, run: SourceRun) -> tuple[bool, list[str]]:
        """Registers clusters of new objects, within the limits; returns whether more are left."""
        limit = run.source.settings.max_clusters
        count, registered = sum(1 for row in run.members.values() if row.cluster_id), 0
        for item in run.objects:
            member = run.members.get(item.uid)
            if item.is_ending or (member is not None and member.cluster_id):
                continue
            if count >= limit:
                text = (
                    f"more than {limit:,} objects match: raise maxClusters, or narrow the selector"
                )
                return False, [text]
            if registered >= MAX_REGISTRATIONS:
                return True, []
            member, cluster = await self._register_or_refuse(run, item, member)
            run.members[item.uid] = member
            if cluster is not None:
                run.clusters[cluster.id] = cluster
                count, registered = count + 1, registered + 1
        return False, []

    async def _register_or_refuse(
        self, run: SourceRun, item: InventoryObject, before: ClusterSourceMember | None
    ) -> tuple[ClusterSourceMember, Cluster | None]:
        """Registers the cluster of an object, or records the reason for which it cannot."""
        try:
            return await self._register_one(run, item, before)
        except _REFUSALS as error:
            message = error.message[:_MAX_MESSAGE]
        refused = replace(
            before or _new_member(self._context.new_id(), run, item),
            state=MemberState.REFUSED,
            message=message,
        )
        if refused != before:
            async with self._context.store.write() as tx:
                store = tx[ClusterSourceMemberStore]
                await (store.put(refused) if before else store.add(refused))
        return refused, None

    @retry_on_collision
    async def _register_one(
        self, run: SourceRun, item: InventoryObject, before: ClusterSourceMember | None
    ) -> tuple[ClusterSourceMember, Cluster]:
        settings = run.source.settings
        name = cluster_name(settings.name_template, item)
        tags = check_tags(cluster_tags(settings, item.labels))
        change = ClusterChange(name, name, tags=tags, project_id=run.source.project_id)
        async with self._context.change(run.actor, "createCluster") as tx:
            cluster = await register_cluster(tx, self._context, change)
            member = replace(
                before or _new_member(self._context.new_id(), run, item),
                state=state_of(settings.inventory, item, cluster),
                message="",
                cluster_id=cluster.id,
                tags=tags,
            )
            store = tx[ClusterSourceMemberStore]
            await (store.put(member) if before else store.add(member))
        return member, cluster

    # Changes of objects and clusters

    async def _update_members(self, run: SourceRun) -> None:
        """Writes what changed at objects and their clusters."""
        changed: list[ClusterSourceMember] = []
        for item in run.objects:
            before = run.members.get(item.uid)
            if before is None or before.cluster_id is None:
                continue
            after = await self._updated_member(run, item, before)
            if after != before:
                after = replace(after, updated_at=run.now)
                run.members[item.uid] = after
                changed.append(after)
        if changed:
            async with self._context.store.write() as tx:
                await tx[ClusterSourceMemberStore].change_each(
                    {row.id: column_values(row) for row in changed}
                )

    async def _updated_member(
        self, run: SourceRun, item: InventoryObject, before: ClusterSourceMember
    ) -> ClusterSourceMember:
        settings, cluster = run.source.settings, run.clusters.get(before.cluster_id or "")
        state = state_of(settings.inventory, item, cluster)
        # Deliveries of the agent keep their message until they succeed.
        is_delivering = state is before.state and (state is MemberState.JOINING or before.token_id)
        message = before.message if is_delivering else ""
        after = replace(
            before, state=state, message=message, version=item.version,
            properties=item.properties, gone_at=None,
        )  # fmt: skip
        if cluster is None or state is MemberState.REMOVED:
            return after
        tags = cluster_tags(settings, item.labels)
        if tags == dict(before.tags):
            return after
        merged = retagged(cluster.tags, before.tags, tags)
        try:
            await self._clusters.update(run.actor, cluster.id, ClusterChange(tags=merged))
        except _REFUSALS as error:
            return replace(after, message=f"cannot change tags: {error.message}"[:_MAX_MESSAGE])
        return replace(after, tags=tags)

    # Deleted objects

    async def _remove_gone(self, run: SourceRun) -> list[str]:
        """Marks clusters whose objects are gone, or removes them; returns problems."""
        present = {item.uid for item in run.objects}
        registered: list[ClusterSourceMember] = []
        forgotten: list[ClusterSourceMember] = []
        for uid, row in run.members.items():
            if uid not in present:
                (registered if _is_registered(row, run.clusters) else forgotten).append(row)
        problems: list[str] = []
        settings = run.source.settings
        if settings.gone is GonePolicy.DELETE and registered:
            if len(registered) > settings.max_deletions:
                problems.append(
                    f"{len(registered)} objects are gone, but maxDeletions is "
                    f"{settings.max_deletions}: no cluster was removed"
                )
            else:
                removed, registered, problems = await self._detach_clusters(run, registered)
                forgotten += removed
        await self._forget_members(forgotten)
        await self._mark_gone(run, registered)
        for row in forgotten:
            run.members.pop(row.uid)
        return problems

    async def _detach_clusters(
        self, run: SourceRun, rows: Iterable[ClusterSourceMember]
    ) -> tuple[list[ClusterSourceMember], list[ClusterSourceMember], list[str]]:
        """Removes clusters; returns the rows of those removed, of those left, and problems.

        Their agents are gone with them, so nobody could delete objects.
        """
        removed: list[ClusterSourceMember] = []
        left: list[ClusterSourceMember] = []
        problems: list[str] = []
        for row in rows:
            cluster, problem = run.clusters[row.cluster_id or ""], ""
            if cluster.protect:
                text = f"cluster {cluster.handle!r} is protected, and its object is gone"
                problem = f"{text}: set protect to false, or delete it yourself"
            else:
                try:
                    await self._clusters.detach(run.actor, cluster.id)
                except _REFUSALS as error:
                    problem = f"cannot remove cluster {cluster.handle!r}: {error.message}"
            (left if problem else removed).append(row)
            problems += [problem] if problem else []
        return removed, left, problems

    async def _forget_members(self, rows: Collection[ClusterSourceMember]) -> None:
        if not rows:
            return
        async with self._context.store.write() as tx:
            tokens = [row.token_id for row in rows if row.token_id]
            await tx[BootstrapTokenStore].remove_each(tokens)
            await tx[ClusterSourceMemberStore].remove_each([row.id for row in rows])

    async def _mark_gone(self, run: SourceRun, rows: Iterable[ClusterSourceMember]) -> None:
        marked = [
            replace(
                row, state=MemberState.GONE, message="", gone_at=run.now, token_id=None,
                updated_at=run.now,
            )
            for row in rows
            if row.state is not MemberState.GONE
        ]  # fmt: skip
        if not marked:
            return
        tokens = [row.token_id for row in rows if row.token_id]
        async with self._context.store.write() as tx:
            await tx[BootstrapTokenStore].remove_each(tokens)
            await tx[ClusterSourceMemberStore].change_each(
                {row.id: column_values(row) for row in marked}
            )
        run.members |= {row.uid: row for row in marked}


def _new_member(id: str, run: SourceRun, item: InventoryObject) -> ClusterSourceMember:
    return ClusterSourceMember(
        id,
        run.source.id,
        item.uid,
        item.namespace,
        item.name,
        run.now,
        run.now,
        MemberState.REFUSED,
        version=item.version,
        properties=item.properties,
    )


def _is_registered(row: ClusterSourceMember, clusters: Mapping[str, Cluster]) -> bool:
    cluster = clusters.get(row.cluster_id or "")
    return cluster is not None and cluster.ending_at is None
