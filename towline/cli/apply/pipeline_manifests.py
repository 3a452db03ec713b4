"""Converts pipeline manifests to API attributes, and compares them with the API's state."""

import json
from collections.abc import Mapping
from functools import cache

from core.json_object import JsonObject
from towline.cli.apply.generator_manifests import ResourceIds
from towline.cli.apply.kind_manifests import (
    GATE_SHAPE,
    STEP_SHAPE,
    TRIGGER_SHAPE,
    ReadSecret,
    comparable_gate,
    comparable_trigger,
    gate_attributes,
)
from towline.cli.apply.shapes import STRING_MAP, Fields, fields_of
from towline.cli.lazy_import import load
from towline.cli.pipelines.generated import PipelineDetails, Stage
from towline.cli.shell.output import Row

# Defaults of the API for omitted fields.
_DEFAULTS: JsonObject = {
    "comparison": "AT_MOST",
    "strategy": "ALL",
    "mode": "COMMIT",
    "onCommit": True,
    "value": "${tag}",
    "author": "Towline <towline@localhost>",
    "message": "Promote ${pipeline} ${release} to ${stage}",
    "branch": "towline/${pipeline}/${stage}/${release}",
    "maxRestarts": 3,
    "silentDeadlineSeconds": 1800,
    "maxSilentPercent": 50,
}


@cache
def shape() -> Fields:
    """Fields of a pipeline: those of the API's input objects, with names instead of ids."""
    inputs = load("towline.generated_inputs")
    git = fields_of(inputs.GitWriteAttributes)
    stage = fields_of(inputs.PipelineStageAttributes) | {
        "services": [str],
        "workflow": fields_of(inputs.PipelineWorkflowAttributes) | {"steps": [STEP_SHAPE]},
        "selector": {
            "tags": STRING_MAP,
            "distro": str,
            "project": str,
            "groups": [str],
            "ignoreClusters": [str],
        },
    }
    return {
        "name": str,
        "stages": [stage],
        "edges": [fields_of(inputs.PipelineEdgeAttributes) | {"gates": [GATE_SHAPE]}],
        "onCommit": bool,
        "triggers": [{**TRIGGER_SHAPE, "git": git}],
    }


def attributes_of(fields: JsonObject, ids: ResourceIds, secret: ReadSecret) -> JsonObject:
    """Builds `PipelineAttributes`; `secret` reads secret sources."""
    return {
        "stages": [_stage(stage, ids, secret) for stage in fields["stages"]],
        "edges": [
            {
                **edge,
                "gates": [gate_attributes(gate, ids, secret) for gate in edge.get("gates", ())],
            }
            for edge in fields.get("edges", ())
        ],
        "onCommit": fields.get("onCommit", True),
        "triggers": [_trigger(trigger, secret) for trigger in fields.get("triggers", ())],
    }


def as_meant(fields: JsonObject, ids: ResourceIds) -> JsonObject:
    """Converts a manifest to the form for comparison: with ids, without defaults."""
    attributes = attributes_of(fields, ids, lambda _: None)
    stages = {stage["name"]: _compared(stage) for stage in attributes["stages"]}
    edges = {
        f"{edge['from']} to {edge['to']}": {
            gate["name"]: comparable_gate(gate) for gate in edge["gates"]
        }
        for edge in attributes["edges"]
    }
    triggers = {trigger["name"]: _compared_trigger(trigger) for trigger in attributes["triggers"]}
    return {"stages": stages, "edges": edges} | _begun(attributes["onCommit"], triggers)


def _begun(on_commit: bool, triggers: JsonObject) -> JsonObject:
    """Settings that start releases, without defaults."""
    return _trimmed_fields({"onCommit": on_commit, "triggers": triggers})


def as_written(pipeline: PipelineDetails) -> JsonObject:
    """Converts a pipeline of the API to the same form."""
    return {
        "stages": {stage["name"]: _compared(_written_stage(stage)) for stage in pipeline["stages"]},
        "edges": {
            f"{edge['from']['name']} to {edge['to']['name']}": {
                gate["name"]: comparable_gate(
                    {**json.loads(gate["settings"]), "name": gate["name"], "type": gate["type"]}
                )
                for gate in edge["gates"]
            }
            for edge in pipeline["edges"]
        },
    } | _begun(pipeline.get("onCommit", True), _written_triggers(pipeline))


def _written_triggers(pipeline: PipelineDetails) -> JsonObject:
    triggers = {}
    for trigger in pipeline.get("triggers", ()):
        git = {"git": json.loads(trigger["git"])} if trigger["git"] else {}
        triggers[trigger["name"]] = _compared_trigger(
            {**json.loads(trigger["settings"]), **git, "type": trigger["type"]}
        )
    return triggers


def _trigger(fields: JsonObject, secret: ReadSecret) -> JsonObject:
    given = {key: value for key, value in fields.items() if key != "webhookSecret"}
    plain = secret(fields.get("webhookSecret"))
    return given | ({"webhookSecret": plain} if plain else {})


def _stage(fields: JsonObject, ids: ResourceIds, secret: ReadSecret) -> JsonObject:
    given: JsonObject = {key: fields[key] for key in ("name", "serviceNames") if key in fields}
    if "services" in fields:
        given["services"] = [{"serviceId": ids.service(member)} for member in fields["services"]]
    if "selector" in fields:
        given["selector"] = _selector(fields["selector"], ids)
    if "rollout" in fields:
        rollout = dict(fields["rollout"])
        if "groups" in rollout:
            rollout["groups"] = [ids.group(group) for group in rollout["groups"]]
        given["rollout"] = rollout
    if "verificationSeconds" in fields:
        given["verification"] = {"soakSeconds": fields["verificationSeconds"]}
    if "verification" in fields:
        given["verification"] = fields["verification"]
    if "git" in fields:
        given["git"] = fields["git"]
    if "workflow" in fields:
        given["workflow"] = gate_attributes(fields["workflow"], ids, secret)
    return given


def _selector(fields: JsonObject, ids: ResourceIds) -> JsonObject:
    selector: JsonObject = {key: fields[key] for key in ("distro",) if key in fields}
    if "tags" in fields:
        selector["tags"] = [{"name": k, "value": v} for k, v in fields["tags"].items()]
    if "project" in fields:
        selector["projectId"] = ids.project(fields["project"])
    if "groups" in fields:
        selector["groupIds"] = [ids.group(group) for group in fields["groups"]]
    if "ignoreClusters" in fields:
        selector["ignoredClusterIds"] = [
            ids.cluster(cluster) for cluster in fields["ignoreClusters"]
        ]
    return selector


def _written_stage(stage: Stage) -> JsonObject:
    chosen = bool(stage["serviceNames"])
    selector = {k: v for k, v in (stage["selector"] or {}).items() if v} if chosen else {}
    settings = load("towline.generated_inputs").StageRolloutAttributes.__annotations__
    rollout = {key: value for key, value in stage["rollout"].items() if key in settings}
    services = [] if chosen else [{"serviceId": s["service"]["id"]} for s in stage["services"]]
    plain: JsonObject = {
        "serviceNames": stage["serviceNames"],
        "verification": stage["verification"],
    }
    if git := stage.get("git"):
        plain["git"] = json.loads(git)
    if workflow := stage.get("workflow"):
        plain["workflow"] = json.loads(workflow["settings"])
    return {**plain, "services": services, "selector": selector, "rollout": rollout}


def _compared(stage: JsonObject) -> JsonObject:
    named = {key: value for key, value in stage.items() if key != "name"}
    if "services" in named:
        named["services"] = [service["serviceId"] for service in named["services"]]
    if "workflow" in named:
        workflow = {"workflow": comparable_gate(named.pop("workflow"))}
        return _trimmed_fields(named) | workflow
    return _trimmed_fields(named)


def _compared_trigger(trigger: JsonObject) -> JsonObject:
    git = {"git": _trimmed_fields(trigger["git"])} if trigger.get("git") else {}
    return comparable_trigger(trigger) | git


def _trimmed_fields(fields: Row) -> JsonObject:
    """Drops empty values and defaults."""
    parts = {key: _trimmed(part, key) for key, part in fields.items()}
    return {k: v for k, v in parts.items() if v not in (None, "", [], {}) and not _usual(k, v)}


def _trimmed(value: object, name: str = "") -> object:
    if isinstance(value, Mapping):
        return _trimmed_fields(value)
    if isinstance(value, list | tuple):
        return [_trimmed(item, name) for item in value]
    return value


def _usual(name: str, value: object) -> bool:
    if name in _DEFAULTS:
        return value == _DEFAULTS[name]
    return type(value) in (int, float) and value == 0 and name != "threshold"
