"""From the bytes of a bundle to manifests."""

from dataclasses import dataclass, field

import orjson

from fleet.bundle import describe
from fleet.errors import Invalid
from syncagent.domain.objects import KubeObject, ObjectKey, api_of, metadata_of
from syncagent.domain.ownership import Manifest, manifest_of
from syncagent.domain.services import Desired, Problem
from syncagent.ports import Bundles, Cluster, UnknownApi
from syncagent.reconcile.registry import Service, Span


@dataclass(slots=True)
class Plan:
    """The manifests of a bundle and where each stands in it.

    `defines` maps kinds (group, kind) that the bundle itself defines to whether they live in
    namespaces. `problems`: what cannot be a manifest at all, so that nothing may be concluded
    from its absence.
    """

    manifests: dict[ObjectKey, Manifest] = field(default_factory=dict)
    spans: dict[ObjectKey, Span] = field(default_factory=dict)
    defines: dict[tuple[str, str], bool] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)


async def plan_bundle(cluster: Cluster, target: Desired, data: bytes) -> Plan:
    """Read a whole bundle. Unavailable: the cluster cannot tell where a kind belongs."""
    assert target.spec is not None
    lines = data.splitlines()
    raws = [orjson.loads(line) for line in lines]
    plan, offset = Plan(defines=dict(filter(None, map(_definition, raws)))), 0
    for line, raw in zip(lines, raws, strict=True):
        try:
            _check_name(raw)
            namespaced = await _namespaced(cluster, raw, plan)
            manifest = manifest_of(raw, target.service_id, target.spec, namespaced)
            if manifest.key in plan.manifests:
                raise Invalid(f"{manifest.ref} is in the bundle twice")
            plan.manifests[manifest.key] = manifest
            plan.spans[manifest.key] = (offset, len(line))
        except Invalid as error:
            plan.problems.append(Problem(error.message, "Invalid"))
        offset += len(line) + 1
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
    raw = orjson.loads(bundles.part(spec.digest, *span))
    return manifest_of(raw, service.id, spec, namespaced=bool(key[2]))


async def _namespaced(cluster: Cluster, raw: KubeObject, plan: Plan) -> bool:
    """Whether an object lives in a namespace; the bundle tells of kinds that are not there yet."""
    api = api_of(raw)
    try:
        return await cluster.namespaced(api)
    except UnknownApi:
        return plan.defines.get((api.group, api.kind), True)


def _definition(raw: KubeObject) -> tuple[tuple[str, str], bool] | None:
    """The kind that an object defines, and whether it lives in namespaces."""
    spec = raw.get("spec")
    if raw.get("kind") != "CustomResourceDefinition" or not isinstance(spec, dict):
        return None
    names = spec.get("names") or {}
    return (spec.get("group", ""), names.get("kind", "")), spec.get("scope") != "Cluster"


def _check_name(raw: KubeObject) -> None:
    """Refuse what would reach another path of the API server than that of one object."""
    name, kind = metadata_of(raw).get("name"), raw.get("kind")
    namespace = metadata_of(raw).get("namespace") or ""
    if not isinstance(kind, str) or not isinstance(raw.get("apiVersion"), str):
        raise Invalid(f"{describe(raw)} has no apiVersion or kind")
    if not isinstance(name, str) or not name:
        raise Invalid(f"{describe(raw)} has no name; a generated one cannot be kept as desired")
    for part in (name, namespace):
        if "/" in part or "%" in part or part in {".", ".."}:
            raise Invalid(f"{describe(raw)}: {part!r} is not a name")
