"""Converts pipeline manifests to API attributes, and compares them with the API's state."""

import json
from collections.abc import Callable, Mapping
from typing import Any

from core.errors import Invalid
from towline.cli.generator_manifests import ResourceIds

Json = dict[str, Any]
Look = Callable[[str], str]

_RULE = {
    "name": str,
    "type": str,
    "quorum": int,
    "notAuthor": bool,
    "people": [str],
    "groups": [str],
    "soakSeconds": int,
    "waitSeconds": int,
    "instructions": str,
    "account": str,
    "secret": {"env": str, "file": str},
    "calendar": {
        "zone": str,
        "hours": [{"weekdays": [int], "begin": str, "end": str}],
        "holidays": [str],
        "freezes": [{"begin": str, "end": str, "reason": str}],
    },
    "job": {"namespace": str, "manifest": dict, "cluster": str, "timeoutSeconds": int},
    "metric": {
        "query": str,
        "threshold": float,
        "comparison": str,
        "url": str,
        "cluster": str,
        "service": str,
        "baseline": str,
        "several": str,
        "emptyPasses": bool,
    },
    "http": {"url": str, "status": int, "contains": str, "secret": {"env": str, "file": str}},
    "version": {"service": str, "range": str},
    "timeoutSeconds": int,
    "attempts": int,
    "backoffSeconds": int,
    "intervalSeconds": int,
}
_STEP = {**_RULE, "after": [str]}
ROLLOUT = {
    "strategy": str,
    "maxUnavailable": int,
    "maxPerGroup": int,
    "maxFailed": int,
    "pauseSeconds": int,
    "canaries": [str],
    "canaryCount": int,
    "groups": [str],
    "waveSize": int,
}
VERIFICATION = {
    "soakSeconds": int,
    "maxRestarts": int,
    "metric": {"address": str, "query": str, "comparison": str, "threshold": float},
}
GIT = {
    "mode": str,
    "changes": [
        {
            "kind": str,
            "path": str,
            "image": str,
            "field": [str],
            "value": str,
            "document": int,
            "source": str,
        }
    ],
    "message": str,
    "branch": str,
    "author": str,
    "provider": str,
}
SHAPE: Mapping[str, Any] = {
    "name": str,
    "stages": [
        {
            "name": str,
            "services": [str],
            "serviceNames": [str],
            "selector": {
                "tags": "map of strings",
                "distro": str,
                "project": str,
                "groups": [str],
                "ignoreClusters": [str],
            },
            "rollout": ROLLOUT,
            "git": GIT,
            "verificationSeconds": int,
            "verification": VERIFICATION,
            "workflow": {"steps": [_STEP], "timeoutSeconds": int},
        }
    ],
    "edges": [{"from": str, "to": str, "gates": [{**_RULE, "steps": [_STEP]}]}],
    "onCommit": bool,
    "triggers": [
        {
            "name": str,
            "type": str,
            "cron": str,
            "zone": str,
            "image": str,
            "policy": str,
            "range": str,
            "pattern": str,
            "tag": str,
            "chart": str,
            "git": GIT,
            "webhookSecret": {"env": str, "file": str},
        }
    ],
}
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


def attributes_of(
    fields: Mapping[str, Any], ids: ResourceIds, service: Look, secret: Callable[[Any], str | None]
) -> Json:
    """Builds `PipelineAttributes`; `service` looks up ids, `secret` reads secret sources."""
    return {
        "stages": [_stage(stage, ids, service, secret) for stage in fields["stages"]],
        "edges": [
            {**edge, "gates": [_gate(gate, ids, secret) for gate in edge.get("gates", ())]}
            for edge in fields.get("edges", ())
        ],
        "onCommit": fields.get("onCommit", True),
        "triggers": [_trigger(trigger, secret) for trigger in fields.get("triggers", ())],
    }


def as_meant(fields: Mapping[str, Any], ids: ResourceIds, service: Look) -> Json:
    """Converts a manifest to the form for comparison: with ids, without defaults."""
    attributes = attributes_of(fields, ids, service, lambda _: None)
    stages = {stage["name"]: _compared(stage) for stage in attributes["stages"]}
    edges = {
        f"{edge['from']} to {edge['to']}": {gate["name"]: _meant(gate) for gate in edge["gates"]}
        for edge in attributes["edges"]
    }
    triggers = {trigger["name"]: _meant(trigger) for trigger in attributes["triggers"]}
    return {"stages": stages, "edges": edges} | _begun(attributes["onCommit"], triggers)


def _begun(on_commit: bool, triggers: Json) -> Json:
    """Settings that start releases, without defaults."""
    return _trimmed({"onCommit": on_commit, "triggers": triggers})


def as_written(pipeline: Json) -> Json:
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


def _written_triggers(pipeline: Json) -> Json:
    triggers = {}
    for trigger in pipeline.get("triggers", ()):
        git = {"git": json.loads(trigger["git"])} if trigger["git"] else {}
        triggers[trigger["name"]] = _meant(
            {**json.loads(trigger["settings"]), **git, "type": trigger["type"]}
        )
    return triggers


def _trigger(fields: Mapping[str, Any], secret: Callable[[Any], str | None]) -> Json:
    given = {key: value for key, value in fields.items() if key != "webhookSecret"}
    plain = secret(fields.get("webhookSecret"))
    return given | ({"webhookSecret": plain} if plain else {})


def _stage(
    fields: Mapping[str, Any], ids: ResourceIds, service: Look, secret: Callable[[Any], str | None]
) -> Json:
    given: Json = {key: fields[key] for key in ("name", "serviceNames") if key in fields}
    if "services" in fields:
        given["services"] = [{"serviceId": service(member)} for member in fields["services"]]
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


def _selector(fields: Mapping[str, Any], ids: ResourceIds) -> Json:
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


def _gate(fields: Mapping[str, Any], ids: ResourceIds, secret: Callable[[Any], str | None]) -> Json:
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


def _placed(fields: Mapping[str, Any], ids: ResourceIds) -> Json:
    """Replaces the handle of a cluster with its id."""
    rest = {key: value for key, value in fields.items() if key != "cluster"}
    if "cluster" not in fields:
        return rest
    return {**rest, "clusterId": ids.cluster(fields["cluster"])}


def _written_stage(stage: Json) -> Json:
    chosen = bool(stage["serviceNames"])
    selector = {k: v for k, v in (stage["selector"] or {}).items() if v} if chosen else {}
    rollout = {key: stage["rollout"][key] for key in ROLLOUT}
    services = [] if chosen else [{"serviceId": s["service"]["id"]} for s in stage["services"]]
    names = ("serviceNames", "verification")
    plain = {key: stage[key] for key in names}
    if stage.get("git"):
        plain["git"] = json.loads(stage["git"])
    if stage.get("workflow"):
        plain["workflow"] = json.loads(stage["workflow"]["settings"])
    return {**plain, "services": services, "selector": selector, "rollout": rollout}


def _compared(stage: Mapping[str, Any]) -> Json:
    named = {key: value for key, value in stage.items() if key != "name"}
    if "services" in named:
        named["services"] = [service["serviceId"] for service in named["services"]]
    if "workflow" in named:
        named["workflow"] = _meant(named["workflow"])
    return _trimmed(named)


def _meant(gate: Mapping[str, Any]) -> Json:
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
    return _trimmed(told)


def _calendar(fields: Mapping[str, Any]) -> Json:
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


def _trimmed(value: Any, name: str = "") -> Any:
    """Drops empty values and defaults."""
    if isinstance(value, Mapping):
        parts = {key: _trimmed(part, key) for key, part in value.items()}
        return {k: v for k, v in parts.items() if v not in (None, "", [], {}) and not _usual(k, v)}
    if isinstance(value, list | tuple):
        return [_trimmed(item, name) for item in value]
    return value


def _usual(name: str, value: Any) -> bool:
    if name in _DEFAULTS:
        return value == _DEFAULTS[name]
    return type(value) in (int, float) and value == 0 and name != "threshold"


def _loaded(text: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        raise Invalid("the manifest of a job gate is not valid JSON") from None
