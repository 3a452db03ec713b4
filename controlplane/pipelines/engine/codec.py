"""JSON forms of pipelines, states, events and effects, as the store keeps them.

A state carries its format version, so that later versions of the program can read older states.
Events and effects carry their type.
"""

from typing import Any, TypeVar, get_args

from pydantic import TypeAdapter, ValidationError

from controlplane.pipelines.engine.effects import Effect
from controlplane.pipelines.engine.engine import HANDLERS
from controlplane.pipelines.engine.events import Event
from controlplane.pipelines.gates import kinds as gate_kinds
from controlplane.pipelines.model.pipeline import Pipeline
from controlplane.pipelines.model.state import PipelineState
from controlplane.pipelines.triggers import kinds as trigger_kinds
from core.errors import Invalid
from core.json_object import JsonMapping, JsonObject

STATE_VERSION = 1
T = TypeVar("T")

_KINDS = {"gate": gate_kinds.BY_KIND, "trigger": trigger_kinds.BY_KIND}
_STATE = TypeAdapter(PipelineState)
_PIPELINE = TypeAdapter(Pipeline)
_TYPED = {kind.__name__: TypeAdapter(kind) for kind in (*HANDLERS, *get_args(Effect))}


def state_to_json(state: PipelineState) -> JsonObject:
    """Returns the JSON form of a state."""
    return {"version": STATE_VERSION, "state": _STATE.dump_python(state, mode="json")}


def state_from_json(data: JsonMapping) -> PipelineState:
    """Decodes the result of `state_to_json`; the empty object is a pipeline that never ran.

    Raises Invalid for anything else, also for a state of a newer version.
    """
    if not data:
        return PipelineState()
    if data.get("version") != STATE_VERSION:
        raise Invalid(f"a pipeline state of version {data.get('version')} cannot be read")
    return _validate(_STATE, data.get("state"))


def pipeline_to_json(pipeline: Pipeline) -> JsonObject:
    """Returns the JSON form of a specification."""
    return _PIPELINE.dump_python(pipeline, mode="json")


def pipeline_from_json(data: JsonMapping) -> Pipeline:
    """Decodes the result of `pipeline_to_json`, unvalidated. Raises Invalid for anything else."""
    return _validate(_PIPELINE, data)


def to_json(value: Event | Effect) -> JsonObject:
    """Returns the JSON form of an event or effect."""
    name = type(value).__name__
    return {"type": name, **_TYPED[name].dump_python(value, mode="json")}


def from_json(data: JsonMapping, kind: type[T]) -> T:
    """Decodes the result of `to_json`. Raises Invalid for anything but this kind."""
    name = data.get("type", "")
    if name not in _TYPED:
        raise Invalid("neither event nor effect of a pipeline")
    value = _validate(_TYPED[name], data)
    if not isinstance(value, kind):
        raise Invalid(f"a pipeline stored {name} in the place of {kind.__name__}")
    return value


def _validate(adapter: TypeAdapter, data: object) -> Any:
    try:
        return adapter.validate_python(data, context=_KINDS)
    except ValidationError as error:
        first = error.errors()[0]
        path = ".".join(str(part) for part in first["loc"])
        raise Invalid(first["msg"], field=path or None) from None
