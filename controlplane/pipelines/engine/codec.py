"""JSON forms of pipelines, states, events and effects, as the store keeps them.

JSON objects (as `dict`) with the fields of the dataclasses. A state carries its format version, so
that later versions of the program can read older states. Events and effects carry their type.
"""

from collections.abc import Mapping
from typing import Any, get_args

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

_KINDS = {"gate": gate_kinds.BY_KIND, "trigger": trigger_kinds.BY_KIND}
_STATE = TypeAdapter(PipelineState)
_PIPELINE = TypeAdapter(Pipeline)
_EVENTS = {kind.__name__: TypeAdapter(kind) for kind in HANDLERS}
_EFFECTS = {kind.__name__: TypeAdapter(kind) for kind in get_args(Effect)}


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
    """Decodes the result of `pipeline_to_json` without validating it again. Raises Invalid for
    anything else.
    """
    return _validate(_PIPELINE, data)


def event_to_json(event: Event) -> JsonObject:
    """Returns the JSON form of an event."""
    return _to_typed_json(_EVENTS, event)


def event_from_json(data: JsonMapping) -> Event:
    """Decodes the result of `event_to_json`. Raises Invalid for anything else."""
    return _from_typed_json(_EVENTS, data)


def effect_to_json(effect: Effect) -> JsonObject:
    """Returns the JSON form of an effect."""
    return _to_typed_json(_EFFECTS, effect)


def effect_from_json(data: JsonMapping) -> Effect:
    """Decodes the result of `effect_to_json`. Raises Invalid for anything else."""
    return _from_typed_json(_EFFECTS, data)


def _to_typed_json(adapters: Mapping[str, TypeAdapter], value: Event | Effect) -> JsonObject:
    name = type(value).__name__
    return {"type": name, **adapters[name].dump_python(value, mode="json")}


def _from_typed_json(adapters: Mapping[str, TypeAdapter], data: JsonMapping) -> Any:
    adapter = adapters.get(data.get("type", ""))
    if adapter is None:
        raise Invalid("neither event nor effect of a pipeline")
    return _validate(adapter, {key: value for key, value in data.items() if key != "type"})


def _validate(adapter: TypeAdapter, data: object) -> Any:
    try:
        return adapter.validate_python(data, context=_KINDS)
    except ValidationError as error:
        first = error.errors()[0]
        path = ".".join(str(part) for part in first["loc"])
        raise Invalid(first["msg"], field=path or None) from None
