"""Services of pipeline stages: named ones, and those that selectors match."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from graphlib import CycleError, TopologicalSorter

from controlplane.access.operations.scopes import find_project
from controlplane.authorization import Actor, Verb, require
from controlplane.clusters.model.selectors import Fleet
from controlplane.clusters.ports import ClusterGroupStore
from controlplane.generators.operations.generation import fleet_of
from controlplane.pipelines.engine import codec
from controlplane.pipelines.model import pipeline
from controlplane.pipelines.model.records import PipelineService
from controlplane.pipelines.model.rollout import StageMember, Strategy, plan_waves
from controlplane.pipelines.ports import PipelineServiceStore, PipelineStore
from controlplane.platform.parts import Columns
from controlplane.platform.ports import Transaction
from controlplane.services.model.service import Service
from controlplane.services.ports import ServiceStore
from core.errors import Conflict, Invalid
from core.identity import ServiceId

BY_FLEET = "*"
"""Placeholder service id of pipelines whose stages depend on the set of clusters."""


def depends_on_clusters(spec: pipeline.Pipeline) -> bool:
    """True if clusters determine the services of the stages, or their order."""
    return any(_stage_depends_on_clusters(stage) for stage in spec.stages)


async def check_groups(tx: Transaction, spec: pipeline.Pipeline) -> None:
    """Invalid: a stage names a cluster group that does not exist."""
    existing = await tx[ClusterGroupStore].by_ids(spec.groups) if spec.groups else []
    if missing := spec.groups - {group.id for group in existing}:
        raise Invalid(
            f"cluster group {min(missing)} does not exist: select another one", field="groups"
        )


async def with_selected_services(
    tx: Transaction, spec: pipeline.Pipeline, project_id: str
) -> pipeline.Pipeline:
    """The pipeline with the services of its project that its selectors match now, in waves."""
    if not depends_on_clusters(spec):
        return spec
    project = await find_project(tx, project_id)
    fleet = replace(await fleet_of(tx), fence=project.fence)
    stages = [
        await _with_services(tx, stage, fleet, project.id, spec.id)
        if _stage_depends_on_clusters(stage)
        else stage
        for stage in spec.stages
    ]
    return replace(spec, stages=tuple(stages))


def promoted_by(spec: pipeline.Pipeline) -> set[ServiceId]:
    """Services of all stages after the first."""
    return {s for stage in spec.stages if stage is not spec.first for s in stage.services}


async def bind_services(
    tx: Transaction, spec: pipeline.Pipeline, before: pipeline.Pipeline | None, actor: Actor
) -> list[Service]:
    """Makes services after the first stage get their commits only from this pipeline.

    Returns the services that leave it. Invalid: the actor may not see a service. Conflict: another
    pipeline promotes a service.
    """
    promoted, promoted_before = promoted_by(spec), promoted_by(before) if before else set()
    ids = {service for stage in spec.stages for service in stage.services}
    rows = await tx[ServiceStore].by_ids(ids | promoted_before)
    readable = {row.id: row for row in rows if actor.may(Verb.READ, row.target)}
    if missing := ids - readable.keys():
        raise Invalid(f"service {min(missing)} does not exist", field="stages.services")
    for id in promoted ^ promoted_before:
        if id in readable:
            require(actor, Verb.WRITE, readable[id].target)
    added = promoted - promoted_before
    if taken := await tx[PipelineServiceStore].promoted(added):
        id = ServiceId(taken[0].service_id)
        other = await promoting_pipeline_name(tx, id)
        raise Conflict(f"service {readable[id].name!r} belongs to another pipeline: {other}")
    pinned = {id: readable[id].desired.commit_sha for id in added}
    await tx[ServiceStore].change_each(
        {id: {"promoted": True, "pinned_sha": sha} for id, sha in pinned.items()}
    )
    removed = await _end_promotions(tx, promoted_before - promoted)
    await _store_service_rows(tx, spec)
    return removed


async def check_shared_services(tx: Transaction, spec: pipeline.Pipeline) -> None:
    """Invalid: the pipelines of these services would promote in a cycle."""
    others = await tx[PipelineServiceStore].of_services(
        {service for stage in spec.stages for service in stage.services}
    )
    if not {row.pipeline_id for row in others} - {spec.id}:
        return
    rows = await tx[PipelineStore].all()
    specs = [codec.pipeline_from_json(row.spec) for row in rows if row.id != spec.id]
    ids = {s for pipeline in (*specs, spec) for stage in pipeline.stages for s in stage.services}
    names = {str(row.id): row.name for row in await tx[ServiceStore].by_ids(ids)}
    _check_promotion_order([*specs, spec], names)


def _check_promotion_order(
    pipelines: Iterable[pipeline.Pipeline], names: Mapping[str, str]
) -> None:
    """Raises Invalid, naming the cycle, if services would promote each other in a cycle.

    A pipeline leads from the services of a stage to those of the next stages. `names` has the
    services' names.
    """
    predecessors: dict[str, set[str]] = {}
    for spec in pipelines:
        for stage in spec.stages:
            node = f"{spec.name}/{stage.name}"
            sources = predecessors.setdefault(node, set())
            for edge in spec.edges_into[stage.id]:
                sources.add(f"{spec.name}/{spec.stage[edge.source].name}")
            for service in stage.services:
                if stage is spec.first:
                    sources.add(service)
                else:
                    predecessors.setdefault(service, set()).add(node)
    try:
        TopologicalSorter(predecessors).prepare()
    except CycleError as error:
        cycle = " → ".join(names.get(service, service) for service in error.args[1])
        raise Invalid(f"pipelines would promote in a cycle: {cycle}", field="stages") from None


async def promoting_pipeline_name(tx: Transaction, service_id: str) -> str | None:
    """The name of the pipeline that promotes this service; None if none does."""
    rows = await tx[PipelineServiceStore].promoted(service_id)
    record = await tx[PipelineStore].get(rows[0].pipeline_id) if rows else None
    return record.name if record else None


async def unbind_services(tx: Transaction, spec: pipeline.Pipeline) -> list[Service]:
    """Lets all services of a pipeline follow their refs again, and returns them."""
    services = await _end_promotions(tx, promoted_by(spec))
    rows = await tx[PipelineServiceStore].of_pipeline(spec.id)
    await tx[PipelineServiceStore].remove_each([row.id for row in rows])
    return services


async def _end_promotions(tx: Transaction, ids: Collection[ServiceId]) -> list[Service]:
    """Lets services follow their refs again, and returns them.

    A service that its stage verified gets a new generation, for its agent.
    """
    services = await tx[ServiceStore].lock(ids)
    changes: dict[str, Columns] = {}
    for service in services:
        desired = service.desired
        is_new = desired.stage_verification is not None and desired.digest is not None
        changes[service.id] = {
            "promoted": False,
            "pinned_sha": None,
            "stage_verification": None,
            "generation": desired.generation + is_new,
        }
    await tx[ServiceStore].change_each(changes)
    return services


async def _store_service_rows(tx: Transaction, spec: pipeline.Pipeline) -> None:
    """Updates the rows that find pipelines by service."""
    rows = {
        f"{spec.id}/{service}": PipelineService(
            f"{spec.id}/{service}", spec.id, service, stage is not spec.first
        )
        for stage in spec.stages
        for service in stage.services
    }
    if depends_on_clusters(spec):
        id = f"{spec.id}/{BY_FLEET}"
        rows[id] = PipelineService(id, spec.id, BY_FLEET, False)
    existing = {row.id: row for row in await tx[PipelineServiceStore].of_pipeline(spec.id)}
    await tx[PipelineServiceStore].remove_each(existing.keys() - rows.keys())
    await tx[PipelineServiceStore].add_each(rows[id] for id in rows if id not in existing)
    await tx[PipelineServiceStore].change_each(
        {
            id: {"promoted": row.promoted}
            for id, row in rows.items()
            if id in existing and existing[id].promoted is not row.promoted
        }
    )


def _stage_depends_on_clusters(stage: pipeline.Stage) -> bool:
    rollout = stage.rollout
    return (
        stage.selector is not None
        or rollout.strategy is not Strategy.ALL
        or bool(rollout.max_per_group)
    )


async def _with_services(
    tx: Transaction, stage: pipeline.Stage, fleet: Fleet, project_id: str, pipeline_id: str
) -> pipeline.Stage:
    services = await _selected_services(tx, stage, fleet, project_id, pipeline_id)
    members = _members(services, fleet, stage.rollout.groups)
    return replace(
        stage,
        services=tuple(member.service for member in members),
        waves=plan_waves(stage.rollout, members),
        group_of={member.service: member.groups[0] for member in members if member.groups},
    )


async def _selected_services(
    tx: Transaction, stage: pipeline.Stage, fleet: Fleet, project_id: str, pipeline_id: str
) -> list[Service]:
    """The named services; or the matching ones of the project that no other pipeline promotes."""
    if stage.selector is None:
        return await tx[ServiceStore].by_ids(stage.services)
    clusters = [cluster.id for cluster in fleet.matching(stage.selector.clusters, project_id)]
    matching = await tx[ServiceStore].with_names(clusters, stage.selector.names)
    promotions = await tx[PipelineServiceStore].promoted({service.id for service in matching})
    promoted_elsewhere = {row.service_id for row in promotions if row.pipeline_id != pipeline_id}
    matching = [
        service
        for service in matching
        if service.id not in promoted_elsewhere and service.project_id == project_id
    ]
    if len(matching) > pipeline.MAX_SERVICES:
        raise Invalid(
            f"the selector of {stage.name} matches {len(matching):,} services, "
            f"but at most {pipeline.MAX_SERVICES:,} are allowed",
            field="selector",
        )
    return matching


def _members(
    services: Sequence[Service], fleet: Fleet, groups: Collection[str]
) -> list[StageMember]:
    clusters = {cluster.id: cluster for cluster in fleet.clusters}
    rollout_groups = [group for group in fleet.groups if group.id in groups]
    members = []
    for service in services:
        cluster = clusters.get(service.cluster_id)
        group_ids = tuple(
            group.id for group in rollout_groups if cluster is not None and group.contains(cluster)
        )
        handle = cluster.handle if cluster else ""
        members.append(StageMember(service.id, handle, group_ids))
    return sorted(members, key=lambda member: (member.cluster, member.service))
