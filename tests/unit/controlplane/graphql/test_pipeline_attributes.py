"""Pipelines as the API is given them: what cannot be meant is refused."""

from typing import Any

import pytest
import strawberry

from controlplane.generators.api.definitions import ClusterSelectorAttributes
from controlplane.pipelines.api.pipelines import PipelineStageAttributes, StageServiceAttributes
from core.errors import Invalid


def test_a_selector_that_chooses_nothing_is_refused() -> None:
    """Beside services it would be passed over in silence."""
    services = [StageServiceAttributes(service_id=strawberry.ID("s"))]
    attributes: Any = PipelineStageAttributes
    stage = attributes(name="prod", services=services, selector=ClusterSelectorAttributes())
    with pytest.raises(Invalid, match="selector requires serviceNames"):
        stage.change()
