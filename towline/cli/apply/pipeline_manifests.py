"""Converts pipeline manifests to API attributes, and compares them with the API's state."""

import json
from collections.abc import Callable, Mapping
from functools import cache

from core.errors import Invalid
from towline.cli.apply.generator_manifests import ResourceIds
from towline.cli.apply.shapes import SOURCE, STRING_MAP, Fields, Json, fields_of
from towline.cli.lazy_import import load
from towline.cli.pipelines.generated import PipelineDetails, Stage
from towline.cli.shell.output import Row

ReadSecret = Callable[[dict[str, str] | None], str | None]

# Defaults of the API for omitted fields.
_DEFAULTS: Json = {
    "quorum": 1,
    "notAuthor": True,
    "timeoutSeconds": 0,
    "attempts": 1,
    "backoffSeconds": 10,
    "intervalSeconds": 15,
    "comparison": "AT_MOST",
    "several": "ALL",
    "emptyPasses": False,
    "strategy": "ALL",
    "mode": "COMMIT",
    "policy": "SEMVER",
    "range": "*",
    "tag": "latest",
    "onCommit": True,
    "value": "${tag}",
    "author": "Towline <towline@localhost>",
    "message": "Promote ${pipeline} ${release} to ${stage}",
    "branch": "towline/${pipeline}/${stage}/${release}",
    "zone": "UTC",
    "maxRestarts": 3,
}
_JOB_SECONDS = 3600


@cache
def shape() -> Fields:
    """Fields of a pipeline: those of the API's input objects, with names instead of ids."""
    inputs = load("towline.generated_inputs")
    placed = {
        "job": fields_of(inputs.GateJobAttributes, "clusterId")
        | {"cluster": str, "manifest": dict},
        "metric": fields_of(inputs.GateMetricAttributes, "clusterId") | {"cluster": str},
        "http": fields_of(inputs.GateHttpAttributes) | {"secret": SOURCE},
        "secret": SOURCE,
    }
    step = fields_of(inputs.PipelineStepAttributes) | placed
    gate = fields_of(inputs.PipelineGateAttributes) | placed | {"steps": [step]}
    stage = fields_of(inputs.PipelineStageAttributes) | {
        "services": [str],
        "workflow": fields_of(inputs.PipelineWorkflowAttributes) | {"steps": [step]},
        "selector": {
            "tags": STRING_MAP,
            "distro": str,
            "project": str,
            "groups": [str],
            "ignoreClusters": [str],
        },
    }
    trigger = fields_of(inputs.PipelineTriggerAttributes) | {"webhookSecret": SOURCE}
    return {
        "name": str,
        "stages": [stage],
        "edges": [fields_of(inputs.PipelineEdgeAttributes) | {"gates": [gate]}],
        "onCommit": bool,
        "triggers": [trigger],
    }


def attributes_of(fields: Json, ids: ResourceIds, secret: ReadSecret) -> Json:
    """Builds `PipelineAttributes`; `secret` reads secret sources."""
    return {
        "stages": [_stage(stage, ids, secret) for stage in fields["stages"]],
        "edges": [
            {**edge, "gates": [_gate(gate, ids, secret) for gate in edge.get("gates", ())]}
            for edge in fields.get("edges", ())
        ],
        "onCommit": fields.get("onCommit", True),
        "triggers": [_trigger(trigger, secret) for trigger in fields.get("triggers", ())],
    }


def as_meant(fields: Json, ids: ResourceIds) -> Json:
    """Converts a manifest to the form for comparison: with ids, without defaults."""
    attributes = attributes_of(fields, ids, lambda _: None)
    stages = {stage["name"]: _compared(stage) for stage in attributes["stages"]}
    edges = {
        f"{edge['from']} to {edge['to']}": {gate["name"]: _meant(gate) for gate in edge["gates"]}
        for edge in attributes["edges"]
    }
    triggers = {trigger["name"]: _meant(trigger) for trigger in attributes["triggers"]}
    return {"stages": stages, "edges": edges} | _begun(attributes["onCommit"], triggers)


def _begun(on_commit: bool, triggers: Json) -> Json:
    """Settings that start releases, without defaults."""
    return _trimmed_fields({"onCommit": on_commit, "triggers": triggers})


def as_written(pipeline: PipelineDetails) -> Json:
    """Converts a pipeline of the API to the same form."""
    return {
        "stages": {stage["name"]: _compared(_written_stage(stage)) for stage in pipeline["stages"]},
        "edges": {
            f"{edge['from']['name']} to {edge['to']['name']}": {
                gate["name"]: _meant({**json.loads(gate["settings"]), "type": gate["type"]})
                for gate in edge["gates"]
            }
            for edge in pipeline["edges"]
        },
    } | _begun(pipeline.get("onCommit", True), _written_triggers(pipeline))


def _written_triggers(pipeline: PipelineDetails) -> Json:
    triggers = {}
    for trigger in pipeline.get("triggers", ()):
        git = {"git": json.loads(trigger["git"])} if trigger["git"] else {}
        triggers[trigger["name"]] = _meant(
            {**json.loads(trigger["settings"]), **git, "type": trigger["type"]}
        )
    return triggers


def _trigger(fields: Json, secret: ReadSecret) -> Json:
    given = {key: value for key, value in fields.items() if key != "webhookSecret"}
    plain = secret(fields.get("webhookSecret"))
    return given | ({"webhookSecret": plain} if plain else {})


def _stage(fields: Json, ids: ResourceIds, secret: ReadSecret) -> Json:
    given: Json = {key: fields[key] for key in ("name", "serviceNames") if key in fields}
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
        given["workflow"] = _gate(fields["workflow"], ids, secret)
    return given


def _selector(fields: Json, ids: ResourceIds) -> Json:
    selector: Json = {key: fields[key] for key in ("distro",) if key in fields}
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


def _gate(fields: Json, ids: ResourceIds, secret: ReadSecret) -> Json:
    gate = dict(fields)
    for kind in ("job", "metric"):
        if kind in gate:
            gate[kind] = _placed(gate[kind], ids)
    if "job" in gate:
        manifest = json.dumps(gate["job"].get("manifest", {}))
        gate["job"] = {**gate["job"], "manifest": manifest}
    if "http" in gate:
        http = {key: value for key, value in gate["http"].items() if key != "secret"}
        plain = secret(gate["http"].get("secret"))
        gate["http"] = http | ({"secret": plain} if plain else {})
    if "secret" in gate:
        plain = secret(gate.pop("secret"))
        gate |= {"secret": plain} if plain else {}
    if "steps" in gate:
        gate["steps"] = [_gate(step, ids, secret) for step in gate["steps"]]
    return gate


def _placed(fields: Json, ids: ResourceIds) -> Json:
    """Replaces the handle of a cluster with its id."""
    rest = {key: value for key, value in fields.items() if key != "cluster"}
    if "cluster" not in fields:
        return rest
    return {**rest, "clusterId": ids.cluster(fields["cluster"])}


def _written_stage(stage: Stage) -> Json:
    chosen = bool(stage["serviceNames"])
    selector = {k: v for k, v in (stage["selector"] or {}).items() if v} if chosen else {}
    settings = load("towline.generated_inputs").StageRolloutAttributes.__annotations__
    rollout = {key: value for key, value in stage["rollout"].items() if key in settings}
    services = [] if chosen else [{"serviceId": s["service"]["id"]} for s in stage["services"]]
    plain: Json = {"serviceNames": stage["serviceNames"], "verification": stage["verification"]}
    if git := stage.get("git"):
        plain["git"] = json.loads(git)
    if workflow := stage.get("workflow"):
        plain["workflow"] = json.loads(workflow["settings"])
    return {**plain, "services": services, "selector": selector, "rollout": rollout}


def _compared(stage: Json) -> Json:
    named = {key: value for key, value in stage.items() if key != "name"}
    if "services" in named:
        named["services"] = [service["serviceId"] for service in named["services"]]
    if "workflow" in named:
        named["workflow"] = _meant(named["workflow"])
    return _trimmed_fields(named)


def _meant(gate: Json) -> Json:
    """Normalizes a gate: drops name and defaults, formats times and jobs as the API does."""
    told = {key: value for key, value in gate.items() if key != "name"}
    if "job" in told:
        job = dict(told["job"])
        if isinstance(job.get("manifest"), str):
            job["manifest"] = _loaded(job["manifest"])
        if job.get("timeoutSeconds") == _JOB_SECONDS:
            del job["timeoutSeconds"]
        # Compares the manifest as one text, so that none of its fields is dropped as a default.
        told["job"] = job | {"manifest": json.dumps(job["manifest"], sort_keys=True)}
    if "calendar" in told:
        told.update(_calendar(told.pop("calendar")))
    if "steps" in told:
        told["steps"] = {step["name"]: _meant(step) for step in told["steps"]}
    return _trimmed_fields(told)


def _calendar(fields: Json) -> Json:
    hours = [
        {**hours, "begin": _clock(hours.get("begin")), "end": _clock(hours.get("end"))}
        for hours in fields.get("hours", ())
    ]
    freezes = [
        {key: _moment(value) for key, value in freeze.items()}
        for freeze in fields.get("freezes", ())
    ]
    return {"calendar": {**fields, "hours": hours, "freezes": freezes}}


def _clock(text: str | None) -> str:
    return f"{text}:00" if text and text.count(":") == 1 else text or "00:00:00"


def _moment(text: str) -> str:
    return text.removesuffix("Z") + "+00:00" if text.endswith("Z") else text


def _trimmed_fields(fields: Row) -> Json:
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


def _loaded(text: str) -> object:
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        raise Invalid("the manifest of a job gate is not valid JSON") from None
