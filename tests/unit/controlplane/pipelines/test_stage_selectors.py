"""Selectors of stages: services of the pipeline's project, also those created later."""

from datetime import timedelta

from controlplane.access.model.bindings import Project
from controlplane.authorization import DestinationRule, Fence
from controlplane.clusters.model.selectors import Selector
from controlplane.pipelines.model.pipeline import ServiceSelector
from controlplane.pipelines.operations.drafts import EdgeDraft, PipelineDraft, StageDraft
from controlplane.pipelines.operations.pipelines import Pipelines
from controlplane.services.ports import ServiceStore
from tests.fakes.actors import ADMIN
from tests.fakes.clock import START
from tests.fakes.operations import (
    MemoryOperations,
    make_cluster,
    make_service,
    operations_over_memory,
)

DEV = make_cluster("dev")
PROD = make_cluster("prod", tags={"tier": "prod"})
PARTNER = make_cluster("partner", tags={"tier": "prod"}, project_id="other")
OTHER = Project("other", "other", START, START)


async def given(*rows: object) -> MemoryOperations:
    world = operations_over_memory()
    await world.given(DEV, PROD, PARTNER, OTHER, make_service("web", DEV), *rows)
    return world


async def save(world: MemoryOperations, project_id: str | None = None) -> str:
    selector = ServiceSelector(("web", "api"), Selector(tags={"tier": "prod"}))
    stages = [StageDraft("dev", ["dev-web"]), StageDraft("prod", selector=selector)]
    draft = PipelineDraft("web", stages, [EdgeDraft("dev", "prod")], project_id=project_id)
    return (await Pipelines(world.context).save(ADMIN, draft)).row.id


async def promoted(world: MemoryOperations) -> set[str]:
    return {service.id for service in await world.rows(ServiceStore) if service.spec.promoted}


async def test_a_later_service_of_another_project_is_not_promoted() -> None:
    world = await given(make_service("web", PROD))
    id = await save(world)
    late = make_cluster("late", tags={"tier": "prod"})
    strangers = [
        make_service("web", PARTNER, project_id="other"),
        make_service("web", late, project_id="other"),
    ]
    await world.given(late, *strangers)
    await Pipelines(world.context).engine.advance(id)
    assert await promoted(world) == {"prod-web"}


async def test_a_shared_cluster_matches_with_the_services_of_the_project_alone() -> None:
    rule = DestinationRule(("*",), clusters=("partner",))
    guest = Project("guest", "guest", START, START, fence=Fence(destinations=(rule,)))
    world = await given(guest, make_service("api", PARTNER, project_id="guest"))
    id = await save(world, "guest")
    await world.given(make_service("web", PARTNER, project_id="other"), make_service("web", PROD))
    await Pipelines(world.context).engine.advance(id)
    assert await promoted(world) == {"partner-api"}


async def test_a_sweep_covers_changed_services_and_stages_that_depend_on_clusters() -> None:
    """A selector may match another cluster without a change of any service."""
    world = await given(make_service("web", PROD), make_service("api", DEV))
    selecting = await save(world)
    pipelines = Pipelines(world.context)
    named = PipelineDraft("api", [StageDraft("dev", ["dev-api"])])
    plain = (await pipelines.save(ADMIN, named)).row.id
    swept = pipelines.engine.pipelines_changed_since
    assert await swept(START + timedelta(seconds=1)) == [selecting]
    assert await swept(START - timedelta(seconds=1)) == sorted([selecting, plain])
