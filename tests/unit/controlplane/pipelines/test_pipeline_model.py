"""Valid pipelines are saved; invalid ones are refused with field and sentence."""

from dataclasses import replace

import pytest

from controlplane.clusters.model.selectors import Selector
from controlplane.pipelines.gates.kinds import (
    ApprovalRule,
    JobRule,
    SoakRule,
    WaitRule,
    WorkflowRule,
)
from controlplane.pipelines.model.gate_rules import Patience, Step
from controlplane.pipelines.model.git_writes import GitWrite
from controlplane.pipelines.model.pipeline import (
    MAX_GATES,
    EdgeId,
    Gate,
    GateId,
    Pipeline,
    ServiceSelector,
    Stage,
    StageEdge,
    StageId,
    validate,
)
from controlplane.pipelines.model.rollout import Rollout, Strategy
from controlplane.pipelines.model.triggers import Trigger
from controlplane.pipelines.triggers.kinds import TagRule
from core.errors import Invalid
from core.identity import ServiceId
from core.spec.verification import Verification
from tests.fakes.pipelines import make_pipeline


def stage(name: str, *services: str) -> Stage:
    return Stage(StageId(name), name, tuple(ServiceId(one) for one in services or (f"{name}-0",)))


def edge(name: str, *gates: Gate) -> StageEdge:
    source, target = name.split()
    return StageEdge(EdgeId(name), StageId(source), StageId(target), gates)


def gate(name: str = "ok", rule: ApprovalRule | SoakRule | None = None) -> Gate:
    return Gate(GateId(name), name, rule or ApprovalRule())


WAITS = WorkflowRule((Step("rest", WaitRule(60)),))
JOB = JobRule(
    "default",
    {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "check"},
        "spec": {"containers": [{"name": "check", "image": "registry.example.org/check:1"}]},
    },
)


def selecting(name: str = "", clusters: Selector | None = None) -> Stage:
    selector = ServiceSelector((name,) if name else (), clusters or Selector())
    return replace(stage("prod"), selector=selector)


GOOD = Pipeline("p", "shop", (stage("dev"), stage("prod")), (edge("dev prod", gate()),))
BAD = {
    "no name": (replace(GOOD, name=" "), "name: must not be empty"),
    "no stage": (
        Pipeline("p", "shop", ()),
        "stages: must have 1 to 100 entries, not 0",
    ),
    "empty stage": (
        replace(GOOD, stages=(Stage(StageId("dev"), "dev", ()), stage("prod"))),
        "stages[0].services: stage dev has no service",
    ),
    "two stages of one name": (
        replace(GOOD, stages=(stage("dev"), Stage(StageId("prod"), "dev", (ServiceId("x"),)))),
        "stages: duplicate stage name dev",
    ),
    "two stages of one id": (
        replace(GOOD, stages=(stage("dev"), Stage(StageId("dev"), "prod", (ServiceId("x"),)))),
        "stages: duplicate stage id dev",
    ),
    "a service in two stages": (
        replace(GOOD, stages=(stage("dev", "web"), stage("prod", "web"))),
        "stages: duplicate service web",
    ),
    "a service twice in a stage": (
        replace(GOOD, stages=(stage("dev", "web", "web"), stage("prod"))),
        "stages: duplicate service web",
    ),
    "unknown stage": (
        replace(GOOD, edges=(edge("dev test"),)),
        "edges[0]: stage test does not exist",
    ),
    "a stage to itself": (
        replace(GOOD, edges=(edge("dev prod"), edge("prod prod"))),
        "edges: stages form a cycle: prod → prod",
    ),
    "two edges alike": (
        replace(GOOD, edges=(edge("dev prod"), replace(edge("dev prod"), id=EdgeId("e")))),
        "edges: duplicate edge dev → prod",
    ),
    "two edges of one id": (
        replace(GOOD, edges=(edge("dev prod"), replace(edge("prod dev"), id=EdgeId("dev prod")))),
        "edges: duplicate edge id dev prod",
    ),
    "two gates of one name": (
        replace(GOOD, edges=(edge("dev prod", gate(), replace(gate(), id=GateId("g"))),)),
        "edges[0].gates: duplicate gate name ok",
    ),
    "too many gates": (
        replace(GOOD, edges=(edge("dev prod", *(gate(str(n)) for n in range(MAX_GATES + 1))),)),
        "edges[0].gates: must have at most 20 entries, not 21",
    ),
    "no quorum": (
        replace(GOOD, edges=(edge("dev prod", gate(rule=ApprovalRule(quorum=0))),)),
        "edges[0].gates[0].quorum: must be 1 to 20 approvals, not 0",
    ),
    "no soak": (
        replace(GOOD, edges=(edge("dev prod", gate(rule=SoakRule(0))),)),
        "edges[0].gates[0].soakSeconds: must be 1 to 7,776,000 seconds, not 0",
    ),
    "no attempts": (
        replace(GOOD, edges=(edge("dev prod", replace(gate(), patience=Patience(attempts=0))),)),
        "edges[0].gates[0].attempts: must be 1 to 20 attempts, not 0",
    ),
    "a selector without names": (
        replace(GOOD, stages=(stage("dev"), selecting())),
        "stages[1].selector.names: must have 1 to 1,000 entries, not 0",
    ),
    "a selector with an impossible condition": (
        replace(GOOD, stages=(stage("dev"), selecting("web", Selector(groups=("g",) * 1_001)))),
        "groups: must have at most 1,000 entries, not 1,001",
    ),
    "a verification without a time": (
        replace(GOOD, stages=(stage("dev"), replace(stage("prod"), verification=Verification(0)))),
        "stages[1].verification: must be 1 to 2,592,000 seconds, not 0",
    ),
    "a workflow that is a gate": (
        replace(GOOD, stages=(stage("dev"), replace(stage("prod"), workflow=gate()))),
        "stages[1].workflow: a stage's workflow needs steps: a single gate is not possible here",
    ),
    "a stage without a name": (
        replace(GOOD, stages=(stage("dev"), replace(stage("prod"), name=" "))),
        "stages[1].name: must not be empty",
    ),
    "a rollout that cannot be meant": (
        replace(
            GOOD, stages=(stage("dev"), replace(stage("prod"), rollout=Rollout(Strategy.ROLLING)))
        ),
        "stages[1].rollout.maxUnavailable: ROLLING needs maxUnavailable",
    ),
    "a stage that writes nothing": (
        replace(GOOD, stages=(stage("dev"), replace(stage("prod"), git=GitWrite(())))),
        "stages[1].git.changes: must have 1 to 100 entries, not 0",
    ),
    "a workflow without steps": (
        replace(
            GOOD,
            stages=(
                stage("dev"),
                replace(stage("prod"), workflow=Gate(GateId("w"), "w", WorkflowRule(()))),
            ),
        ),
        "stages[1].workflow.steps: must have 1 to 50 entries, not 0",
    ),
    "a workflow without attempts": (
        replace(
            GOOD,
            stages=(
                stage("dev"),
                replace(
                    stage("prod"),
                    workflow=Gate(GateId("w"), "w", WAITS, Patience(attempts=0)),
                ),
            ),
        ),
        "stages[1].workflow.attempts: must be 1 to 20 attempts, not 0",
    ),
    "too many edges": (
        replace(GOOD, edges=(edge("dev prod"),) * 501),
        "edges: must have at most 500 entries, not 501",
    ),
    "a job without a cluster before a stage with a selector": (
        replace(
            GOOD,
            stages=(stage("dev"), selecting("web")),
            edges=(edge("dev prod", Gate(GateId("g"), "check", JOB)),),
        ),
        "edges: check: a job for a stage with a selector needs a cluster",
    ),
    "a trigger without a name": (
        replace(GOOD, triggers=(Trigger("t", " ", TagRule()),)),
        "triggers[0].name: must not be empty",
    ),
    "a trigger that writes nothing": (
        replace(GOOD, triggers=(Trigger("t", "tag", TagRule(), GitWrite(())),)),
        "triggers[0].git.changes: must have 1 to 100 entries, not 0",
    ),
    "two triggers of one name": (
        replace(GOOD, triggers=(Trigger("t", "tag", TagRule()), Trigger("u", "tag", TagRule()))),
        "triggers: duplicate trigger tag",
    ),
    "two first stages": (
        replace(GOOD, edges=()),
        "edges: only one stage can follow git, but no edge leads to dev, prod",
    ),
}


@pytest.mark.parametrize(("pipeline", "sentence"), BAD.values(), ids=BAD)
def test_a_pipeline_that_cannot_work_is_refused(pipeline: Pipeline, sentence: str) -> None:
    with pytest.raises(Invalid) as error:
        validate(pipeline)
    assert str(error.value) == sentence


def test_a_cycle_is_refused_with_its_way() -> None:
    """In the direction of the edges, from any of its stages."""
    with pytest.raises(Invalid) as error:
        make_pipeline({"a b": [], "b c": [], "c d": [], "d b": []})
    ways = ("b → c → d → b", "c → d → b → c", "d → b → c → d")
    assert str(error.value) in [f"edges: stages form a cycle: {way}" for way in ways]


def test_the_same_gate_id_on_two_edges_is_refused() -> None:
    pipeline = Pipeline(
        "p",
        "shop",
        (stage("a"), stage("b"), stage("c")),
        (edge("a b", gate()), edge("b c", gate())),
    )
    with pytest.raises(Invalid, match="edges: duplicate gate id ok"):
        validate(pipeline)


def test_a_single_stage_is_a_pipeline() -> None:
    only = Pipeline("p", "shop", (stage("dev"),))
    assert validate(only).first == only.stages[0]


def test_stages_are_ordered_after_all_that_lead_to_them() -> None:
    pipeline = make_pipeline({"us prod": [], "eu prod": [], "dev eu": [], "dev us": []})
    names = [one.name for one in pipeline.order]
    assert names[0] == "dev"
    assert names[-1] == "prod"
