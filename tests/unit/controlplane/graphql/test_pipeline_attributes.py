"""Pipelines as the API is given them: what cannot be meant is refused."""

import pytest
import strawberry

from controlplane.graphql.definitions import ClusterSelectorAttributes
from controlplane.graphql.pipelines import PipelineStageAttributes, StageServiceAttributes
from core.errors import Invalid


def test_a_selector_that_chooses_nothing_is_refused() -> None:
    """Beside services it would be passed over in silence."""
    services = [StageServiceAttributes(service_id=strawberry.ID("s"))]
    stage = PipelineStageAttributes(
        name="prod", services=services, selector=ClusterSelectorAttributes()
    )
    with pytest.raises(Invalid, match="selector requires serviceNames"):
        stage.draft()
