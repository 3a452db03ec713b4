"""Selectors of stages: services of the pipeline's project, also those created later."""

from datetime import timedelta

import pytest

from controlplane.access.model.bindings import Project
from controlplane.authorization import DestinationRule, Fence
from controlplane.clusters.model.selectors import Selector
from controlplane.pipelines.model import pipeline
from controlplane.pipelines.model.pipeline import ServiceSelector
from controlplane.pipelines.model.rollout import Rollout, Strategy
from controlplane.pipelines.operations.drafts import EdgeDraft, PipelineDraft, StageDraft
from controlplane.pipelines.operations.pipelines import Pipelines
from controlplane.services.ports import ServiceStore
from core.errors import Invalid
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
EDGES, REST = [EdgeDraft("dev", "prod")], [EdgeDraft("dev", "rest")]
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


async def test_a_selector_leaves_out_services_that_another_pipeline_promotes() -> None:
    more = make_cluster("more", tags={"tier": "prod"})
    world = await given(make_service("web", PROD), more, make_service("web", more))
    other = PipelineDraft(
        "other", [StageDraft("dev", ["dev-web"]), StageDraft("prod", ["prod-web"])], EDGES
    )
    await Pipelines(world.context).save(ADMIN, other)
    await save(world)
    view = await Pipelines(world.context).get(ADMIN, None, "web")
    assert view.spec.stages[1].services == ("more-web",)


async def test_a_selector_matches_as_many_services_as_a_stage_can_have(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pipeline, "MAX_SERVICES", 2)
    clusters = [make_cluster(f"c{number}", tags={"tier": "prod"}) for number in range(3)]
    rows = [make_service("web", cluster) for cluster in clusters]
    world = await given(*clusters[:-1], *rows[:-1])
    id = await save(world)
    view = await Pipelines(world.context).get(ADMIN, id)
    assert len(view.spec.stages[1].services) == 2
    await world.given(clusters[-1], rows[-1])
    with pytest.raises(Invalid, match="the selector of prod matches 3 services, but at most 2"):
        await save(world)


async def test_named_services_are_rolled_out_in_the_order_of_their_clusters() -> None:
    world = await given(make_service("web", PROD), make_service("api", DEV))
    wave = StageDraft("rest", ["prod-web", "dev-api"], rollout=Rollout(Strategy.WAVES, wave_size=1))
    draft = PipelineDraft("web", [StageDraft("dev", ["dev-web"]), wave], REST)
    view = await Pipelines(world.context).save(ADMIN, draft)
    assert view.spec.stages[1].waves == (("dev-api",), ("prod-web",))
