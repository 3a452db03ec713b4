"""Parser of bundles into manifests and hooks."""

from dataclasses import dataclass, field

import orjson

from core.errors import Invalid
from core.spec.bundle import MAX_OBJECTS
from core.spec.desired import Desired
from core.spec.fences import ServiceFence
from core.spec.image_signatures import ImageSignatureRule, check_images
from core.spec.images import images_in
from core.spec.input_checks import CheckResult, InputCheck, InputKind
from core.spec.objects import GroupVersionKind, ObjectKey, ObjectRef
from core.spec.source_signatures import Evidence, decode_evidence
from core.spec.status import Problem
from syncagent.domain.bundle_validation import check_object, check_owners
from syncagent.domain.objects import KubeObject, api_of, ref_of
from syncagent.domain.ownership import HookManifest, ObjectManifest, hook_manifest, manifest_of
from syncagent.domain.sealed_values import with_sealed_values
from syncagent.ports import BundleStore, ObjectApi, UnknownApi
from syncagent.reconcile.registry import ServiceState, Span

_MAX_IMAGES = 100
_NO_RULE = "the cluster's rules ask for no signature"


@dataclass(slots=True)
class BundlePlan:
    """The manifests of a bundle with their positions, and its hooks.
    `defines` maps the kinds (group, kind) that the bundle itself defines to whether they are
    namespaced. `problems`: errors of the bundle; if there are any, nothing of it may be applied or
    pruned. `images`: the check of each image, at most 100.
    """

    manifests: dict[ObjectKey, ObjectManifest] = field(default_factory=dict)
    spans: dict[ObjectKey, Span] = field(default_factory=dict)
    hooks: list[HookManifest] = field(default_factory=list)
    defines: dict[tuple[str, str], bool] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    images: dict[str, InputCheck] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _ImageCheck:
    """The cluster's own rules about images, and the evidence of a bundle."""

    rules: tuple[ImageSignatureRule, ...] = ()
    evidence: Evidence = Evidence()

    @classmethod
    def of(cls, target: Desired, fence: ServiceFence | None) -> "_ImageCheck":
        """Reads the evidence if there are rules. Evidence that cannot be read proves nothing."""
        if fence is None or not fence.images or target.spec is None:
            return cls()
        attestation = target.spec.attestation
        try:
            return cls(fence.images, decode_evidence(attestation.evidence if attestation else b""))
        except Invalid:
            return cls(fence.images)

    def check(self, body: KubeObject, found: dict[str, InputCheck]) -> None:
        """Adds the check of each image of an object. Raises Invalid for one that the rules do not
        allow."""
        for image in images_in(body):
            if image in found or len(found) == _MAX_IMAGES and not self.rules:
                continue
            try:
                signer = check_images(self.rules, [image], self.evidence).get(image)
            except Invalid as error:
                _add_check(
                    found, InputCheck(InputKind.IMAGE, image, CheckResult.REFUSED, error.message)
                )
                raise
            result = CheckResult.VERIFIED if signer else CheckResult.UNVERIFIED
            reason = f"signed by {signer}" if signer else _NO_RULE
            _add_check(found, InputCheck(InputKind.IMAGE, image, result, reason))


def _add_check(found: dict[str, InputCheck], check: InputCheck) -> None:
    if len(found) < _MAX_IMAGES:
        found[check.subject] = check


async def plan_bundle(
    cluster: ObjectApi, target: Desired, data: bytes, fence: ServiceFence | None = None
) -> BundlePlan:
    """Parses a whole bundle. Unavailable: the cluster cannot report the scope of a kind.

    An object outside the fence is a problem of the bundle.
    """
    lines = data.splitlines()
    limit = min(MAX_OBJECTS, fence.max_objects if fence and fence.max_objects else MAX_OBJECTS)
    if len(lines) > limit:
        text = f"the service has {len(lines):,} objects, more than the limit of {limit:,}"
        return BundlePlan(problems=[Problem(text, reason="Invalid")])
    plan, offset = BundlePlan(defines=_defined_kinds(lines)), 0
    images = _ImageCheck.of(target, fence)
    scopes: dict[GroupVersionKind, bool] = {}
    for line in lines:
        raw = object_of(line)
        try:
            check_object(raw, len(line))
            if (api := api_of(raw)) not in scopes:
                scopes[api] = await _is_namespaced(cluster, api, plan)
            ref = _add_to_plan(plan, target, raw, line, offset, scopes[api])
            if fence is not None:
                fence.check(ref)
            images.check(raw, plan.images)
        except Invalid as error:
            plan.problems.append(Problem(error.message, reason="Invalid", ref=ref_of(raw)))
        offset += len(line) + 1
    try:
        check_owners({key: body.body for key, body in plan.manifests.items()})
    except Invalid as error:
        plan.problems.append(Problem(error.message, reason="Invalid"))
    return plan


async def manifest_for(
    cluster: ObjectApi, bundles: BundleStore, service: ServiceState, key: ObjectKey
) -> ObjectManifest | None:
    """Returns the manifest last applied for one object; None if the bundle does not contain it."""
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
    raw, sealed_values = with_sealed_values(orjson.loads(line), line, spec)
    return manifest_of(raw, service.id, spec, bool(key[2]), sealed_values)


def _add_to_plan(
    plan: BundlePlan, target: Desired, raw: KubeObject, line: bytes, offset: int, namespaced: bool
) -> ObjectRef:
    """Adds one object of a bundle to the plan: `raw`, encoded there as `line`. Invalid."""
    assert target.spec is not None
    raw, sealed_values = with_sealed_values(raw, line, target.spec)
    hook = hook_manifest(raw, target.service_id, target.spec, namespaced, sealed_values)
    if hook is not None:
        plan.hooks.append(hook)
        return hook.ref
    manifest = manifest_of(raw, target.service_id, target.spec, namespaced, sealed_values)
    key = manifest.key
    if key in plan.manifests:
        raise Invalid(f"{manifest.ref} is in the bundle twice")
    plan.manifests[key] = manifest
    plan.spans[key] = (offset, len(line))
    return manifest.ref


async def _is_namespaced(cluster: ObjectApi, api: GroupVersionKind, plan: BundlePlan) -> bool:
    """Reports whether a kind is namespaced; the bundle itself may define kinds that do not exist
    yet.
    """
    try:
        return await cluster.namespaced(api)
    except UnknownApi:
        return plan.defines.get((api.group, api.kind), True)


def _defined_kinds(lines: list[bytes]) -> dict[tuple[str, str], bool]:
    """Lists the kinds that a bundle defines, and whether they are namespaced."""
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
    """Parses one object of a bundle; an invalid one becomes an empty object."""
    try:
        raw = orjson.loads(line)
    except orjson.JSONDecodeError:
        return {}
    return raw if isinstance(raw, dict) else {}
