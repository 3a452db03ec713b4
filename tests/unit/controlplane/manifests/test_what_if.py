"""Replays of the pipeline in a manifest: files that are refused."""

from datetime import timedelta

import pytest

from controlplane.kinds import all_kinds
from controlplane.manifests.operations.what_if import ManifestReplays
from controlplane.pipelines.operations.pipelines import Pipelines
from controlplane.pipelines.operations.what_if import PipelineReplays
from core.errors import Invalid, NotFound, TowlineError
from tests.fakes.actors import ADMIN
from tests.fakes.clock import START
from tests.fakes.manifest_world import ManifestWorld, document, manifest_world

PIPELINE = document("Pipeline", "shop", {"stages": [], "edges": []})


async def refused(text: str, error: type[TowlineError]) -> str:
    world = manifest_world()
    context = world.memory.context
    replays = PipelineReplays(context, world.operations[Pipelines])
    manifests = ManifestReplays(context, all_kinds(world.operations), replays)
    with pytest.raises(error) as raised:
        source = ManifestWorld.source(text)
        await manifests.run(ADMIN, source, START, START + timedelta(hours=1))
    return raised.value.message


async def test_a_file_needs_exactly_one_pipeline() -> None:
    assert "contains 0 pipelines" in await refused(document("Cluster", "a"), Invalid)
    two = PIPELINE + document("Pipeline", "other", {"stages": [], "edges": []})
    assert "contains 2 pipelines" in await refused(two, Invalid)


async def test_problems_have_their_line() -> None:
    text = document("Pipeline", "shop", {"stagez": []})
    assert "fleet.yaml:7: spec.stagez: unknown field" in await refused(text, Invalid)


async def test_the_pipeline_must_exist() -> None:
    await refused(PIPELINE, NotFound)
