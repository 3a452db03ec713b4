"""Bringing one service to its desired state: an ordered list of small steps.

Each step may end the walk by raising; what was reached so far is on disk.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace

from fleet.errors import NotFound
from syncagent.domain.inventory import Owned
from syncagent.domain.objects import KubeObject, ObjectKey, ObjectRef
from syncagent.domain.ownership import fingerprint
from syncagent.domain.services import Desired, DriftPolicy, Phase, Problem, ServiceSpec
from syncagent.reconcile.apply import Writer
from syncagent.reconcile.manifests import Plan, plan_bundle
from syncagent.reconcile.prune import prunable, take_away
from syncagent.reconcile.registry import Service
from syncagent.reconcile.tools import Tools


@dataclass(slots=True)
class Walk:
    """One walk of a service to `target`; filled in step by step."""

    service: Service
    target: Desired
    spec: ServiceSpec
    data: bytes = b""
    plan: Plan = field(default_factory=Plan)


Step = Callable[[Tools, Walk], Awaitable[None]]


async def synchronize(tools: Tools, service: Service) -> None:
    """Walk all steps. Raises what ended the walk early; failures of objects are on the service."""
    assert service.desired.spec is not None
    walk = Walk(service, service.desired, service.desired.spec)
    service.failures.clear()
    service.written = service.pruned = 0
    for step in STEPS:
        await step(tools, walk)


async def obtain(tools: Tools, walk: Walk) -> None:
    """The bundle, from disk or from the control plane."""
    walk.service.busy = Phase.FETCHING
    tools.touch(walk.service.id)
    walk.data = await _load_or_fetch(tools, walk.spec)
    if _is_newest(walk) and not walk.service.stamps.fetched:
        walk.service.stamps = replace(walk.service.stamps, fetched=tools.now_ms())


async def plan(tools: Tools, walk: Walk) -> None:
    """The manifests; objects of other services among them are not ours to write."""
    await tools.require_cluster()
    walk.service.busy = Phase.APPLYING
    walk.plan = await plan_bundle(tools.cluster, walk.target, walk.data)
    walk.data = b""
    for problem in walk.plan.problems:
        walk.service.failures[None] = problem
    for key, manifest in walk.plan.manifests.items():
        holder = tools.registry.claimant(key)
        if holder is not None and holder is not walk.service:
            text = f"{manifest.ref} belongs to service {_name(holder)} already"
            walk.service.failures[key] = Problem(text, "Claimed", manifest.ref)


async def announce(tools: Tools, walk: Walk) -> None:
    """On disk before anything is written: what may come to be."""
    if walk.spec.options.dry_run:
        return
    service = walk.service
    coming = [
        manifest.ref
        for key, manifest in walk.plan.manifests.items()
        if key not in service.owned and _ours(walk, key)
    ]
    if service.current != walk.target or coming:
        tools.memory.begin(walk.target, coming)
    for ref in coming:
        tools.registry.add(service, Owned.intended(service.id, ref))
    service.current, service.spans = walk.target, walk.plan.spans


async def prepare_namespace(tools: Tools, walk: Walk) -> None:
    """Make the service's namespace, or give it the labels asked for. It is never pruned."""
    options = walk.spec.options
    if not options.create_namespace or not walk.spec.namespace:
        return
    ref = ObjectRef("", "v1", "Namespace", "", walk.spec.namespace)
    if ref.key in walk.plan.manifests:
        return
    body = _namespace(walk.spec)
    made = (walk.spec.namespace, fingerprint(body))
    if made in tools.registry.namespaces:
        return
    live = await tools.cluster.get(ref)
    if live is None or not _has(live, body["metadata"]):
        await tools.cluster.apply(ref, body, force=options.force, dry_run=options.dry_run)
    if not options.dry_run:
        tools.registry.namespaces.add(made)


async def write(tools: Tools, walk: Walk) -> None:
    """Apply what is not as desired."""
    service = walk.service
    stale = [
        manifest
        for key, manifest in walk.plan.manifests.items()
        if _ours(walk, key) and not _is_applied(walk, manifest.digest, key)
    ]
    await Writer(tools, service, walk.plan, walk.spec).write(stale)
    if not walk.spec.options.dry_run:
        tools.memory.record(service.owned[manifest.key] for manifest in stale)


async def prune(tools: Tools, walk: Walk) -> None:
    """Take away what the bundle no longer has."""
    if walk.spec.options.dry_run:
        return
    going = prunable(walk.service, walk.plan.manifests)
    await take_away(tools, walk.service, going, keep=walk.spec.options.keep_on_prune)


async def finish(tools: Tools, walk: Walk) -> None:
    """The walk is over; when everything was applied, so says the time."""
    service = walk.service
    service.tried = walk.target.sequence
    if _is_newest(walk) and not service.failures and not service.stamps.applied:
        service.stamps = replace(service.stamps, applied=tools.now_ms())
        tools.memory.stamp(service.id, service.stamps)


STEPS: tuple[Step, ...] = (obtain, plan, announce, prepare_namespace, write, prune, finish)


async def _load_or_fetch(tools: Tools, spec: ServiceSpec) -> bytes:
    if tools.bundles.has(spec.digest):
        try:
            return await tools.bundles.load(spec.digest)
        except NotFound:
            pass
    data = await tools.fetcher.fetch(spec.digest, spec.size)
    await tools.bundles.save(spec.digest, data)
    return data


def _is_newest(walk: Walk) -> bool:
    """Whether nothing newer was said while we walked; the times belong to the newest word."""
    return walk.service.desired is walk.target


def _ours(walk: Walk, key: ObjectKey) -> bool:
    failure = walk.service.failures.get(key)
    return failure is None or failure.reason != "Claimed"


def _is_applied(walk: Walk, digest: str, key: ObjectKey) -> bool:
    """Whether an object needs no apply; drift that is to stay is left as it is."""
    one = walk.service.owned.get(key)
    if one is None or one.applied != digest or one.doubtful or one.leaving:
        return False
    return one.synced or walk.spec.options.drift != DriftPolicy.HEAL


def _name(service: Service) -> str:
    return service.desired.spec.name if service.desired.spec else service.id


def _namespace(spec: ServiceSpec) -> KubeObject:
    metadata: KubeObject = {"name": spec.namespace}
    if spec.options.namespace_labels:
        metadata["labels"] = dict(spec.options.namespace_labels)
    if spec.options.namespace_annotations:
        metadata["annotations"] = dict(spec.options.namespace_annotations)
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}


def _has(live: KubeObject, wanted: KubeObject) -> bool:
    """Whether a live namespace carries the labels and annotations wanted."""
    return all(
        (live["metadata"].get(part) or {}).get(name) == value
        for part in ("labels", "annotations")
        for name, value in (wanted.get(part) or {}).items()
    )
