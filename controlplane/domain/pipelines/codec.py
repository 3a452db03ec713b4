"""The text forms of pipelines, states, events and effects, as they are kept in the store.

JSON objects with the fields of the dataclasses. A state carries the version of its form, so that
a later program can read an older one; events and effects carry their type.
"""

from typing import Any, get_args

from pydantic import TypeAdapter, ValidationError
from pydantic_core import from_json as parse
from pydantic_core import to_json as write

from controlplane.domain.pipelines.effects import Effect
from controlplane.domain.pipelines.events import Event
from controlplane.domain.pipelines.model import Pipeline
from controlplane.domain.pipelines.state import State
from fleet.errors import Invalid

STATE_VERSION = 1

_STATE = TypeAdapter(State)
_PIPELINE = TypeAdapter(Pipeline)
_EVENTS = {one.__name__: TypeAdapter(one) for one in get_args(Event)}
_EFFECTS = {one.__name__: TypeAdapter(one) for one in get_args(Effect)}


def state_to_json(state: State) -> str:
    """The state as text."""
    body = _STATE.dump_python(state, mode="json")
    return write({"version": STATE_VERSION, "state": body}).decode()


def state_from_json(text: str) -> State:
    """The state that `state_to_json` wrote. Invalid: anything else, or a newer version."""
    data = _object(text)
    if data.get("version") != STATE_VERSION:
        raise Invalid(f"a pipeline state of version {data.get('version')} cannot be read")
    return _build(_STATE, data.get("state"))


def pipeline_to_json(pipeline: Pipeline) -> str:
    """The specification as text."""
    return _PIPELINE.dump_json(pipeline).decode()


def pipeline_from_json(text: str) -> Pipeline:
    """The specification that `pipeline_to_json` wrote, not validated again."""
    return _build(_PIPELINE, _object(text))


def event_to_json(event: Event) -> str:
    """The event as text."""
    return _typed(_EVENTS, event)


def event_from_json(text: str) -> Event:
    """The event that `event_to_json` wrote. Invalid: anything else."""
    return _untyped(_EVENTS, text)


def effect_to_json(effect: Effect) -> str:
    """The effect as text."""
    return _typed(_EFFECTS, effect)


def effect_from_json(text: str) -> Effect:
    """The effect that `effect_to_json` wrote. Invalid: anything else."""
    return _untyped(_EFFECTS, text)


def _typed(adapters: dict[str, TypeAdapter], value: Event | Effect) -> str:
    name = type(value).__name__
    return write({"type": name, **adapters[name].dump_python(value, mode="json")}).decode()


def _untyped(adapters: dict[str, TypeAdapter], text: str) -> Any:
    data = _object(text)
    adapter = adapters.get(data.pop("type", ""))
    if adapter is None:
        raise Invalid("neither event nor effect of a pipeline")
    return _build(adapter, data)


def _object(text: str) -> dict[str, Any]:
    try:
        data = parse(text)
    except ValueError as error:
        raise Invalid(f"not JSON: {error}") from None
    if not isinstance(data, dict):
        raise Invalid("a JSON object is expected")
    return data


def _build(adapter: TypeAdapter, data: Any) -> Any:
    try:
        return adapter.validate_python(data)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        raise Invalid(first["msg"], field=place or None) from None
