"""From the bytes of a bundle to manifests and hooks."""

from dataclasses import dataclass, field

import orjson

from fleet.bundle import MAX_OBJECTS
from fleet.errors import Invalid
from syncagent.domain.objects import Api, KubeObject, ObjectKey, api_of, ref_of
from syncagent.domain.ownership import HookManifest, Manifest, hook_manifest, manifest_of
from syncagent.domain.refusals import check_object, check_owners
from syncagent.domain.sealed import with_boxes
from syncagent.domain.services import Desired, Problem
from syncagent.ports import Bundles, Cluster, UnknownApi
from syncagent.reconcile.registry import Service, Span


@dataclass(slots=True)
class Plan:
    """The manifests of a bundle, where each stands in it, and its hooks.

    `defines` maps kinds (group, kind) that the bundle itself defines to whether they live in
    namespaces. `problems`: what is wrong with the bundle; then nothing of it may be applied, and
    nothing concluded from what it lacks.
    """

    manifests: dict[ObjectKey, Manifest] = field(default_factory=dict)
    spans: dict[ObjectKey, Span] = field(default_factory=dict)
    hooks: list[HookManifest] = field(default_factory=list)
    defines: dict[tuple[str, str], bool] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)


async def plan_bundle(cluster: Cluster, target: Desired, data: bytes) -> Plan:
    """Read a whole bundle. Unavailable: the cluster cannot tell where a kind belongs."""
    lines = data.splitlines()
    if len(lines) > MAX_OBJECTS:
        text = f"{len(lines):,} objects in one service; {MAX_OBJECTS:,} at most"
        return Plan(problems=[Problem(text, "Invalid")])
    plan, offset = Plan(defines=_definitions(lines)), 0
    places: dict[Api, bool] = {}
    for line in lines:
        raw = object_of(line)
        try:
            check_object(raw, len(line))
            if (api := api_of(raw)) not in places:
                places[api] = await _namespaced(cluster, api, plan)
            _take(plan, target, raw, line, offset, places[api])
        except Invalid as error:
            plan.problems.append(Problem(error.message, "Invalid", ref_of(raw)))
        offset += len(line) + 1
    try:
        check_owners({key: one.body for key, one in plan.manifests.items()})
    except Invalid as error:
        plan.problems.append(Problem(error.message, "Invalid"))
    return plan


async def manifest_for(
    cluster: Cluster, bundles: Bundles, service: Service, key: ObjectKey
) -> Manifest | None:
    """The manifest last applied for one object; None if the bundle does not have it."""
    if service.current is None or service.current.spec is None:
        return None
    spec = service.current.spec
    if service.spans is None:
        data = await bundles.load(spec.digest)
        service.spans = (await plan_bundle(cluster, service.current, data)).spans
    span = service.spans.get(key)
    if span is None:
        return None
    line = bundles.part(spec.digest, *span)
    raw, boxes = with_boxes(orjson.loads(line), line, spec)
    return manifest_of(raw, service.id, spec, bool(key[2]), boxes)


def _take(
    plan: Plan, target: Desired, raw: KubeObject, line: bytes, offset: int, namespaced: bool
) -> None:
    """Add one object of a bundle to the plan: `raw`, which is `line` there. Invalid."""
    assert target.spec is not None
    raw, boxes = with_boxes(raw, line, target.spec)
    hook = hook_manifest(raw, target.service_id, target.spec, namespaced, boxes)
    if hook is not None:
        plan.hooks.append(hook)
        return
    manifest = manifest_of(raw, target.service_id, target.spec, namespaced, boxes)
    key = manifest.key
    if key in plan.manifests:
        raise Invalid(f"{manifest.ref} is in the bundle twice")
    plan.manifests[key] = manifest
    plan.spans[key] = (offset, len(line))


async def _namespaced(cluster: Cluster, api: Api, plan: Plan) -> bool:
    """Whether a kind lives in namespaces; the bundle tells of kinds that are not there yet."""
    try:
        return await cluster.namespaced(api)
    except UnknownApi:
        return plan.defines.get((api.group, api.kind), True)


def _definitions(lines: list[bytes]) -> dict[tuple[str, str], bool]:
    """The kinds that objects of a bundle define, and whether they live in namespaces."""
    found = {}
    for line in lines:
        if b'"CustomResourceDefinition"' not in line:
            continue
        raw = object_of(line)
        spec = raw.get("spec")
        if raw.get("kind") == "CustomResourceDefinition" and isinstance(spec, dict):
            names = spec.get("names")
            name = names.get("kind") if isinstance(names, dict) else ""
            found[str(spec.get("group")), str(name)] = spec.get("scope") != "Cluster"
    return found


def object_of(line: bytes) -> KubeObject:
    """One object of a bundle; what is none lacks all that an object has."""
    try:
        raw = orjson.loads(line)
    except orjson.JSONDecodeError:
        return {}
    return raw if isinstance(raw, dict) else {}
