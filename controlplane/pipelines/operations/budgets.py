"""Limits on how many clusters of a group change at once, across all pipelines.

A cluster counts as changing from the moment one of its services gets a release. It stops counting
once the service is healthy or has failed, or its rollout was aborted.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence

from controlplane.clusters.model.cluster import Cluster
from controlplane.clusters.model.groups import ClusterGroup
from controlplane.clusters.ports import ClusterGroupStore, ClusterStore
from controlplane.pipelines.engine import events as ev
from controlplane.pipelines.model import pipeline
from controlplane.pipelines.model.rollout import BudgetRoom, Progress
from controlplane.pipelines.model.state import PipelineState, StageState
from controlplane.pipelines.ports import PipelineServiceStore
from controlplane.platform.ports import Transaction
from controlplane.services.model.service import Service
from controlplane.services.ports import ServiceStore
from core.identity import ServiceId


async def budget_events(
    tx: Transaction, spec: pipeline.Pipeline, state: PipelineState, services: Mapping[str, Service]
) -> list[ev.Budgeted]:
    """Events with the services that the budgets let a pipeline change now.

    Locks the groups, so that no other pipeline uses the same budget in this transaction.
    """
    groups, clusters = await _lock_budget_groups(tx, spec, services)
    if not groups:
        return [ev.Budgeted(None)] if state.room is not None else []
    own_clusters = {services[id].cluster_id for id in _in_progress(state) if id in services}
    busy = await _changing_clusters(tx, groups, own_clusters)
    free, limit_reason = [], ""
    for id in _in_rollout_order(spec, state):
        cluster = clusters.get(services[id].cluster_id) if id in services else None
        if cluster is None:
            free.append(id)
            continue
        limits = [group for group in groups if group.contains(cluster)]
        full_group = next((group for group in limits if _is_full(group, busy, cluster)), None)
        if full_group is None:
            free.append(id)
            for group in limits:
                busy[group.id].add(cluster.id)
        elif not limit_reason:
            name, limit = full_group.name, full_group.max_changing
            limit_reason = (
                f"cluster group {name!r}: its limit of {limit} changing clusters is reached"
            )
    return [ev.Budgeted(BudgetRoom(tuple(free), limit_reason))]


def awaits_budget(state: PipelineState) -> bool:
    """True if a budget holds back a service of the pipeline."""
    return state.room is not None and bool(state.room.reason)


def frees_budget(before: PipelineState, after: PipelineState) -> bool:
    """True if a service that counted in a budget no longer counts."""
    return before.room is not None and bool(set(_in_progress(before)) - set(_in_progress(after)))


async def store_changing(
    tx: Transaction, pipeline_id: str, before: PipelineState, after: PipelineState
) -> None:
    """Stores which services of a pipeline are changing, for other pipelines of the same groups."""
    if before.room is None and after.room is None:
        return
    rows = await tx[PipelineServiceStore].of_pipeline(pipeline_id)
    in_progress = set(_in_progress(after)) if after.room is not None else set()
    changed = {
        row.id: {"changing": row.service_id in in_progress}
        for row in rows
        if row.changing is not (row.service_id in in_progress)
    }
    await tx[PipelineServiceStore].change_each(changed)


async def _lock_budget_groups(
    tx: Transaction, spec: pipeline.Pipeline, services: Mapping[str, Service]
) -> tuple[Sequence[ClusterGroup], Mapping[str, Cluster]]:
    """Locks the groups with a budget over clusters of the pipeline; also its clusters by id."""
    groups = await tx[ClusterGroupStore].with_budget()
    if not groups:
        return (), {}
    promoted = {id for stage in spec.stages if stage is not spec.first for id in stage.services}
    cluster_ids = {services[id].cluster_id for id in promoted if id in services}
    clusters = await tx[ClusterStore].by_ids(cluster_ids)
    ids = [group.id for group in groups if any(group.contains(cluster) for cluster in clusters)]
    locked = await tx[ClusterGroupStore].lock(ids) if ids else ()
    return locked, {cluster.id: cluster for cluster in clusters}


async def _changing_clusters(
    tx: Transaction, groups: Sequence[ClusterGroup], own_clusters: Collection[str]
) -> dict[str, set[str]]:
    """Ids of the changing clusters of each group; `own` are clusters that count in any case."""
    rows = await tx[PipelineServiceStore].changing()
    services = await tx[ServiceStore].by_ids({row.service_id for row in rows}) if rows else []
    clusters = await tx[ClusterStore].by_ids(
        {*own_clusters, *(service.cluster_id for service in services)}
    )
    return {group.id: {c.id for c in clusters if group.contains(c)} for group in groups}


def _in_rollout_order(spec: pipeline.Pipeline, state: PipelineState) -> Iterator[ServiceId]:
    """Services that may get a release next; stages with a running rollout come first."""
    later = [stage for stage in spec.order if stage is not spec.first]
    states = {stage.id: state.stages.get(stage.id, StageState()) for stage in later}
    for stage in sorted(later, key=lambda stage: not states[stage.id].promoting):
        in_progress = states[stage.id].progress if states[stage.id].promoting else {}
        for wave in stage.waves or (stage.services,):
            yield from (id for id in wave if id not in in_progress and id not in state.frozen)


def _in_progress(state: PipelineState) -> Iterator[ServiceId]:
    for stage_state in state.stages.values():
        if not stage_state.stopped:
            yield from (
                id for id, progress in stage_state.progress.items() if progress is Progress.GIVEN
            )


def _is_full(group: ClusterGroup, busy: Mapping[str, set[str]], cluster: Cluster) -> bool:
    clusters = busy[group.id]
    return cluster.id not in clusters and len(clusters) >= group.max_changing
