"""Stored events are read back; invalid ones are refused."""

import json

import pytest

from controlplane.pipelines.engine.codec import (
    from_json,
    pipeline_from_json,
    pipeline_to_json,
    state_from_json,
    state_to_json,
    to_json,
)
from controlplane.pipelines.engine.effects import RunCheck
from controlplane.pipelines.engine.events import Event
from controlplane.pipelines.gates.kinds import ApprovalRule, SoakRule
from controlplane.pipelines.model.state import PipelineState
from core.errors import Invalid
from tests.fakes.pipelines import Line, make_pipeline, two_stages


@pytest.fixture
def line() -> Line:
    """A release that has gone all the way, with every kind of record behind it."""
    line = Line(two_stages(ApprovalRule(), SoakRule(5)))
    line.render("prod", line.observe("c1"))
    line.approve("dev prod 0")
    line.pass_time(5)
    line.health("prod")
    line.observe("c2")
    return line


def test_a_specification_survives_the_store() -> None:
    pipeline = make_pipeline({"a b": [ApprovalRule(2, False), SoakRule(7)], "b c": []})
    assert pipeline_from_json(json.loads(json.dumps(pipeline_to_json(pipeline)))) == pipeline


def test_a_state_survives_the_store(line: Line) -> None:
    assert state_from_json(json.loads(json.dumps(state_to_json(line.state)))) == line.state


def test_events_and_effects_survive_the_store(line: Line) -> None:
    for event, _ in line.log:
        assert from_json(json.loads(json.dumps(to_json(event))), type(event)) == event
    assert len({type(one) for one in line.effects}) == 5
    for effect in line.effects:
        assert from_json(json.loads(json.dumps(to_json(effect))), type(effect)) == effect


def test_the_empty_object_is_a_pipeline_never_run() -> None:
    assert state_from_json({}) == PipelineState()


def test_a_state_of_a_newer_program_is_refused() -> None:
    with pytest.raises(Invalid, match="version 2 cannot be read"):
        state_from_json({"version": 2, "state": {}})


def test_unknown_or_incomplete_events_are_refused() -> None:
    with pytest.raises(Invalid, match="neither event nor effect"):
        from_json({"type": "Demote"}, Event)
    with pytest.raises(Invalid, match="gate"):
        from_json({"type": "ReleaseRejected", "actor": "bob"}, Event)


def test_an_effect_of_another_kind_is_refused(line: Line) -> None:
    with pytest.raises(Invalid, match="stored Notify in the place of RunCheck"):
        from_json(to_json(line.effects[0]), RunCheck)
