"""Pipelines as the API is given them: what cannot be meant is refused."""

from typing import Any

import pytest
import strawberry
from graphql import GraphQLInputObjectType
from graphql.utilities import coerce_input_value
from strawberry.types.arguments import convert_argument

from controlplane.api.schema import schema
from controlplane.clusters.api.selectors import ClusterSelectorAttributes
from controlplane.clusters.model.selectors import Selector
from controlplane.pipelines.api.pipelines import (
    PipelineAttributes,
    PipelineStageAttributes,
    StageServiceAttributes,
)
from controlplane.pipelines.gates.kinds import SoakRule, WaitRule, WorkflowRule
from controlplane.pipelines.model.gate_rules import Patience, Step
from controlplane.pipelines.model.git_writes import FileChange, FileKind, GitWrite, WriteMode
from controlplane.pipelines.model.pipeline import ServiceSelector
from controlplane.pipelines.model.rollout import Rollout, Strategy
from controlplane.pipelines.operations.drafts import (
    EdgeDraft,
    GateDraft,
    PipelineDraft,
    StageDraft,
    TriggerDraft,
)
from controlplane.pipelines.triggers.kinds import TagRule
from core.errors import Invalid
from core.spec.verification import Verification


def draft_of(given: dict[str, Any]) -> PipelineDraft:
    converter = schema.schema_converter
    published = converter.type_map["PipelineAttributes"].implementation
    assert isinstance(published, GraphQLInputObjectType)
    value = coerce_input_value(given, published)
    attributes = convert_argument(
        value, PipelineAttributes, converter.scalar_registry, schema.config
    )
    assert isinstance(attributes, PipelineAttributes)
    return attributes.draft("shop")


def test_absent_fields_have_the_defaults_of_the_draft() -> None:
    stages = [{"name": "dev", "services": [{"serviceId": "d"}]}]
    assert draft_of({"stages": stages}) == PipelineDraft("shop", [StageDraft("dev", ["d"])])


def test_all_parts_of_a_pipeline_arrive() -> None:
    image = {"kind": "IMAGE", "path": "shop.yaml", "image": "shop"}
    write = GitWrite((FileChange(FileKind.IMAGE, "shop.yaml", "shop"),), WriteMode.REQUEST)
    prod = {
        "name": "prod",
        "serviceNames": ["shop"],
        "selector": {"groupIds": ["g"]},
        "rollout": {"strategy": "CANARY", "canaries": ["eu-1"], "groups": ["g"], "maxFailed": 2},
        "verificationSeconds": 60,
        "git": {"changes": [image], "mode": "REQUEST", "message": "", "branch": None},
        "workflow": {"steps": [{"name": "wait", "type": "WAIT", "waitSeconds": 5}]},
    }
    gate = {"name": "soak", "type": "SOAK", "soakSeconds": 60, "attempts": 3}
    tag = {"name": "tags", "type": "TAG", "range": "^1", "webhookSecret": "s" * 16}
    found = draft_of(
        {
            "stages": [{"name": "dev", "services": [{"serviceId": "d"}]}, prod],
            "edges": [{"from": "dev", "to": "prod", "gates": [gate]}],
            "triggers": [tag],
            "projectId": "p",
            "onCommit": False,
        }
    )
    stage = StageDraft(
        "prod",
        [],
        ServiceSelector(("shop",), Selector(groups=("g",))),
        Rollout(Strategy.CANARY, max_failed=2, canaries=("eu-1",), groups=("g",)),
        Verification(60),
        write,
        GateDraft("prod workflow", WorkflowRule((Step("wait", WaitRule(5)),))),
    )
    assert found.stages[1] == stage
    assert found.edges == [
        EdgeDraft("dev", "prod", [GateDraft("soak", SoakRule(60), Patience(attempts=3))])
    ]
    assert found.triggers == [TriggerDraft("tags", TagRule("^1"), None, "s" * 16)]
    assert (found.project_id, found.on_commit) == ("p", False)


def test_a_selector_that_chooses_nothing_is_refused() -> None:
    """Beside services it would be passed over in silence."""
    services = [StageServiceAttributes(service_id=strawberry.ID("s"))]
    attributes: Any = PipelineStageAttributes
    stage = attributes(name="prod", services=services, selector=ClusterSelectorAttributes())
    with pytest.raises(Invalid, match="selector requires serviceNames"):
        stage.change()
