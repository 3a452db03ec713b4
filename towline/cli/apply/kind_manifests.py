"""Gates and triggers in manifests, by the published schema of their kinds."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from core.errors import Invalid
from core.json_object import JsonMapping, JsonObject
from towline.cli.apply.generator_manifests import ResourceIds

ReadSecret = Callable[[Any], str | None]

SCHEMA: JsonObject = json.loads(Path(__file__).with_name("pipeline_kinds.json").read_text())
SECRET = {"env": str, "file": str}
_TYPES: Mapping[str, object] = {
    "string": str,
    "integer": int,
    "number": float,
    "boolean": bool,
    "object": dict,
}


def _merged(kinds: Mapping[str, JsonObject], shared: JsonObject) -> JsonObject:
    """Schema of any of these kinds."""
    properties = dict(shared)
    for kind in kinds.values():
        properties |= kind["properties"]
    return {"type": "object", "properties": properties}


_GATE = _merged(SCHEMA["kinds"], SCHEMA["retries"])
_TRIGGER = _merged(SCHEMA["triggers"], {})


def _manifest_name(name: str, schema: JsonObject) -> str:
    """Manifests name a cluster by its handle: `cluster` instead of `clusterId`."""
    return name.removesuffix("Id") if schema.get("format") == "cluster" else name


def shape_of(schema: JsonObject) -> Any:
    """Returns the shape of a manifest's field."""
    if schema.get("writeOnly"):
        return SECRET
    if "properties" in schema:
        parts = schema["properties"].items()
        return {_manifest_name(name, part): shape_of(part) for name, part in parts}
    if schema["type"] == "array":
        return [shape_of(schema["items"])]
    return _TYPES[schema["type"]]


_RULE = {"name": str, "type": str, **shape_of(_GATE)}
STEP_SHAPE = {**_RULE, "after": [str]}
GATE_SHAPE = {**_RULE, "steps": [STEP_SHAPE]}
TRIGGER_SHAPE = {"name": str, "type": str, **shape_of(_TRIGGER), "webhookSecret": SECRET}


def gate_attributes(fields: JsonMapping, ids: ResourceIds, secret: ReadSecret) -> JsonObject:
    """Builds the API's attributes of a gate, a step or a workflow."""
    gate = _attributes(fields, _GATE, ids, secret)
    if "steps" in fields:
        gate["steps"] = [gate_attributes(step, ids, secret) for step in fields["steps"]]
    return gate


def comparable_gate(gate: JsonMapping) -> JsonObject:
    """Returns the attributes of a gate without its name and defaults, with times as the API
    formats them.
    """
    unnamed = {key: value for key, value in gate.items() if key != "name"}
    compared = _comparable(unnamed, _GATE)
    if "steps" in gate:
        compared["steps"] = {step["name"]: comparable_gate(step) for step in gate["steps"]}
    return compared


def comparable_trigger(trigger: JsonMapping) -> JsonObject:
    """Returns the settings of a trigger without its name and defaults."""
    return _comparable({key: value for key, value in trigger.items() if key != "name"}, _TRIGGER)


def _attributes(value: Any, schema: JsonObject, ids: ResourceIds, secret: ReadSecret) -> Any:
    if "properties" in schema:
        given = dict(value)
        for name, part in schema["properties"].items():
            if (written := _manifest_name(name, part)) in value:
                given[name] = _attributes(given.pop(written), part, ids, secret)
        return {name: part for name, part in given.items() if part is not None}
    if schema.get("format") == "cluster":
        return ids.cluster(value)
    if schema.get("writeOnly"):
        return secret(value) or None
    return json.dumps(value) if schema["type"] == "object" else value


def _comparable(value: Any, schema: JsonObject) -> Any:
    if "properties" in schema:
        parts = schema["properties"]
        compared = {
            name: _comparable(part, parts[name]) if name in parts else part
            for name, part in value.items()
        }
        return {
            name: part
            for name, part in compared.items()
            if part not in (None, [], {}) and part != parts.get(name, {}).get("default")
        }
    if schema["type"] == "array":
        return [_comparable(item, schema["items"]) for item in value]
    if schema["type"] == "object":
        # One text, so that none of its fields is dropped as a default.
        return json.dumps(_parsed(value), sort_keys=True)
    return _TIMES.get(schema.get("format", ""), _unchanged)(value)


def _parsed(value: Any) -> object:
    try:
        return json.loads(value) if isinstance(value, str) else value
    except json.JSONDecodeError:
        raise Invalid("the manifest of a job gate is not valid JSON") from None


def _time(text: str) -> str:
    return f"{text}:00" if text.count(":") == 1 else text


def _date_time(text: str) -> str:
    return text.removesuffix("Z") + "+00:00" if text.endswith("Z") else text


def _unchanged(value: object) -> object:
    return value


_TIMES: Mapping[str, Callable[[Any], Any]] = {"time": _time, "date-time": _date_time}
