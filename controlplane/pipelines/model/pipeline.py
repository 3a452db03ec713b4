"""Pipeline specification: stages of services, and edges with gates between them.

A pipeline is a directed acyclic graph with exactly one first stage, whose services follow git. The
caller builds `Pipeline` values and passes them to `validate` before use.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from graphlib import CycleError, TopologicalSorter

from controlplane.clusters.model.selectors import Selector
from controlplane.pipelines.model.gate_rules import WORKFLOW, GateRule, Patience
from controlplane.pipelines.model.git_writes import GitWrite
from controlplane.pipelines.model.rollout import Rollout, Strategy, Waves
from controlplane.pipelines.model.state import EdgeId, GateId, StageId
from controlplane.pipelines.model.triggers import MAX_TRIGGERS, Trigger
from controlplane.platform.limits import check_count, check_unique
from controlplane.platform.names import check_text
from controlplane.services.model.verification import check_verification
from core.errors import Invalid
from core.identity import ServiceId
from core.spec.verification import Verification

MAX_STAGES = 100
MAX_EDGES = 500
MAX_GATES = 20
MAX_SERVICES = 1_000


@dataclass(frozen=True, slots=True)
class Gate:
    """One condition for passing an edge."""

    id: GateId
    name: str
    rule: GateRule
    patience: Patience = field(default_factory=Patience)


@dataclass(frozen=True, slots=True)
class ServiceSelector:
    """Selects the services of the project with any of these names on matching clusters."""

    names: tuple[str, ...]
    clusters: Selector = field(default_factory=Selector)


@dataclass(frozen=True, slots=True)
class Stage:
    """Services that hold the same release.

    With a `verification` a release that fails it is rolled back to the last good one. With a
    `workflow` the stage is healthy once its services are healthy and then all steps have passed.
    """

    id: StageId
    name: str
    services: tuple[ServiceId, ...]
    """Named services, or those that the selector matched last."""
    selector: ServiceSelector | None = None
    rollout: Rollout = field(default_factory=Rollout)
    waves: Waves = ()
    """The services in rollout order. Empty: all at once."""
    group_of: Mapping[ServiceId, str] = field(default_factory=dict)
    """Cluster group of each service that the rollout limits by group."""
    verification: Verification | None = None
    git: GitWrite | None = None
    writes_to: str = ""
    """ID of the only repository that `git` is written to. The user who saved the pipeline may
    change it."""
    workflow: Gate | None = None


@dataclass(frozen=True, slots=True)
class StageEdge:
    """Connection from one stage to the next; all its gates must be open at the same time."""

    id: EdgeId
    source: StageId
    target: StageId
    gates: tuple[Gate, ...] = ()


@dataclass(frozen=True, slots=True)
class Owner:
    """The user who last saved a pipeline, with whose permissions checks read clusters."""

    id: str = ""
    email: str = ""


@dataclass(frozen=True)
class Pipeline:
    """Stages and edges, in the order of the specification.

    With `on_commit` every new state of the first stage becomes a release at once; else a schedule
    of `triggers` or a user starts it.
    """

    id: str
    name: str
    stages: tuple[Stage, ...]
    edges: tuple[StageEdge, ...] = ()
    owner: Owner = field(default_factory=Owner)
    on_commit: bool = True
    triggers: tuple[Trigger, ...] = ()

    @cached_property
    def stage(self) -> dict[StageId, Stage]:
        """Returns stages by id."""
        return {stage.id: stage for stage in self.stages}

    @cached_property
    def edges_into(self) -> dict[StageId, tuple[StageEdge, ...]]:
        """Returns the edges that end at each stage."""
        return {
            stage.id: tuple(e for e in self.edges if e.target == stage.id) for stage in self.stages
        }

    @cached_property
    def gate(self) -> dict[GateId, tuple[StageEdge, Gate]]:
        """Returns the gates of edges by id, each with its edge."""
        return {gate.id: (edge, gate) for edge in self.edges for gate in edge.gates}

    @cached_property
    def workflow(self) -> dict[GateId, tuple[Stage, Gate]]:
        """Returns the workflows of stages by id, each with its stage."""
        return {
            stage.workflow.id: (stage, stage.workflow) for stage in self.stages if stage.workflow
        }

    @cached_property
    def all_gates(self) -> tuple[tuple[Stage, Gate], ...]:
        """Returns all gates and workflows, each with the stage whose services it concerns."""
        gates = ((self.stage[e.target], gate) for e in self.edges for gate in e.gates)
        return (*gates, *self.workflow.values())

    @cached_property
    def trigger(self) -> dict[str, Trigger]:
        """Returns triggers by id."""
        return {trigger.id: trigger for trigger in self.triggers}

    @cached_property
    def groups(self) -> frozenset[str]:
        """Returns the ids of cluster groups that stages select services by, or roll out by."""
        selected = [stage.selector.clusters.groups for stage in self.stages if stage.selector]
        return frozenset().union(*selected, *(stage.rollout.groups for stage in self.stages))

    @cached_property
    def order(self) -> tuple[Stage, ...]:
        """Returns the stages in topological order. Raises Invalid on a cycle."""
        sources = {k: tuple(e.source for e in edges) for k, edges in self.edges_into.items()}
        try:
            return tuple(
                self.stage[stage_id] for stage_id in TopologicalSorter(sources).static_order()
            )
        except CycleError as error:
            names = " → ".join(self.stage[stage_id].name for stage_id in error.args[1])
            raise Invalid(f"stages form a cycle: {names}", field="edges") from None

    @cached_property
    def first(self) -> Stage:
        """Returns the stage that follows git."""
        return self.order[0]


def validate(pipeline: Pipeline) -> Pipeline:
    """Returns the pipeline. Raises Invalid, naming the field, if it can never work."""
    check_text(pipeline.name, "name")
    check_count(len(pipeline.stages), "stages", MAX_STAGES, least=1)
    check_count(len(pipeline.edges), "edges", MAX_EDGES)
    # Parts of one name get one id: the name tells a user more.
    check_unique((stage.name for stage in pipeline.stages), "stages", "stage name")
    check_unique((stage.id for stage in pipeline.stages), "stages", "stage id")
    for number, stage in enumerate(pipeline.stages):
        _check_stage(stage, f"stages[{number}]")
    services = (service for stage in pipeline.stages for service in stage.services)
    check_unique(services, "stages", "service")
    for number, edge in enumerate(pipeline.edges):
        _check_edge(pipeline, edge, f"edges[{number}]")
    names = {stage.id: stage.name for stage in pipeline.stages}
    edges = (f"{names[edge.source]} → {names[edge.target]}" for edge in pipeline.edges)
    check_unique(edges, "edges", "edge")
    check_unique((edge.id for edge in pipeline.edges), "edges", "edge id")
    gates = (gate.id for edge in pipeline.edges for gate in edge.gates)
    check_unique((*gates, *pipeline.workflow), "edges", "gate id")
    _check_single_first(pipeline)
    _check_first(pipeline.first)
    _check_jobs(pipeline)
    _check_triggers(pipeline)
    return pipeline


def _check_stage(stage: Stage, field: str) -> None:
    check_text(stage.name, f"{field}.name")
    if not stage.services and stage.selector is None:
        raise Invalid(f"stage {stage.name} has no service", field=f"{field}.services")
    check_count(len(stage.services), f"{field}.services", MAX_SERVICES)
    if stage.selector is not None:
        check_count(len(stage.selector.names), f"{field}.selector.names", MAX_SERVICES, least=1)
        stage.selector.clusters.checked()
    stage.rollout.check(f"{field}.rollout")
    if stage.git is not None:
        stage.git.check(f"{field}.git")
    if stage.verification is not None:
        check_verification(stage.verification, f"{field}.verification")
    if stage.workflow is not None:
        _check_workflow(stage.workflow, f"{field}.workflow")


def _check_workflow(gate: Gate, field: str) -> None:
    if gate.rule.kind != WORKFLOW:
        raise Invalid(
            "a stage's workflow needs steps: a single gate is not possible here", field=field
        )
    gate.rule.check(field)
    gate.patience.check(field)


def _check_edge(pipeline: Pipeline, edge: StageEdge, field: str) -> None:
    for stage_id in (edge.source, edge.target):
        if stage_id not in pipeline.stage:
            raise Invalid(f"stage {stage_id} does not exist", field=field)
    check_count(len(edge.gates), f"{field}.gates", MAX_GATES)
    check_unique((gate.name for gate in edge.gates), f"{field}.gates", "gate name")
    for number, gate in enumerate(edge.gates):
        check_text(gate.name, f"{field}.gates[{number}].name")
        if not gate.rule.in_gates:
            raise Invalid(
                f"{gate.rule.kind} can only be a step of a workflow",
                field=f"{field}.gates[{number}]",
            )
        gate.rule.check(f"{field}.gates[{number}]")
        gate.patience.check(f"{field}.gates[{number}]")


def _check_jobs(pipeline: Pipeline) -> None:
    for stage, gate in pipeline.all_gates:
        accesses = [access for rule in gate.rule.leaf_rules() if (access := rule.cluster_access())]
        if stage.selector is not None and any(required.cluster_id is None for required in accesses):
            raise Invalid(
                f"{gate.name}: a job for a stage with a selector needs a cluster", field="edges"
            )


def _check_triggers(pipeline: Pipeline) -> None:
    check_count(len(pipeline.triggers), "triggers", MAX_TRIGGERS)
    check_unique((trigger.name for trigger in pipeline.triggers), "triggers", "trigger")
    for number, trigger in enumerate(pipeline.triggers):
        trigger.check(f"triggers[{number}]")
        if not trigger.watches and pipeline.on_commit:
            raise Invalid(
                "a schedule requires onCommit: false: with onCommit every commit is a release",
                field=f"triggers[{number}]",
            )


def _check_first(first: Stage) -> None:
    if first.rollout.strategy is not Strategy.ALL or first.verification or first.git:
        raise Invalid(
            f"stage {first.name} follows git: it cannot have a rollout, "
            "a verification or git writes",
            field="stages",
        )


def _check_single_first(pipeline: Pipeline) -> None:
    firsts = [stage.name for stage in pipeline.order if not pipeline.edges_into[stage.id]]
    if len(firsts) > 1:
        names = ", ".join(firsts)
        raise Invalid(f"only one stage can follow git, but no edge leads to {names}", field="edges")
