"""Ten thousand random worlds of projects, fences, shared clusters and roles, held to a model.

The model says in a few lines who may place which object where. It shares no code with the program.
"""

import random
from collections.abc import Iterable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, cast

from controlplane.access.model.bindings import Project
from controlplane.authorization import (
    BUILT_IN,
    Actor,
    ActorKind,
    DestinationRule,
    Fence,
    FenceSource,
    Grant,
    Policy,
    Resource,
    Scope,
    SourceRule,
    Verb,
    require,
)
from controlplane.authorization.roles import BuiltInRole
from controlplane.clusters.model.cluster import Cluster
from controlplane.platform.context import Change
from controlplane.services.operations.fences import (
    FencedService,
    as_fence_cluster,
    authorize_destination,
)
from core.errors import Forbidden, Invalid, NotFound
from core.spec.fences import ObjectRules, ServiceFence
from core.spec.objects import ObjectRef
from syncagent.domain.tenants import Tenant, TenantPolicy
from tests.fakes.clock import START
from tests.fakes.operations import make_cluster, make_service

WORLDS = 10_000
NAMES = ("a", "a-x", "b", "b-x")
PATTERNS = ("a", "a*", "b", "*", "*-x", "a-x")
ACCOUNTS = ("deployer", "own:deployer")
KINDS = (("", "ConfigMap"), ("", "Namespace"), ("apps", "Deployment"), ("rbac.io", "ClusterRole"))
TAGS = ({}, {}, {"env": "a"})
KIND_PATTERNS = ("ConfigMap", "Namespace", "*.apps", "*.rbac.io", "*", "Cluster*.rbac.io")
WRITERS = (BuiltInRole.ADMIN, BuiltInRole.EDITOR)


@dataclass(frozen=True)
class World:
    """One random world, and one attempt in it."""

    project: Project
    cluster: Cluster
    roles: list[tuple[BuiltInRole, str]]
    source: FenceSource
    namespace: str
    objects: list[ObjectRef]
    tenants: dict[str, Tenant]


def world_of(seed: int) -> World:
    pick = random.Random(seed)

    def some(of: tuple[str, ...], most: int = 2) -> tuple[str, ...]:
        return tuple(pick.sample(of, pick.randint(0, most)))

    fence = Fence(
        unrestricted=pick.random() < 0.1,
        sources=tuple(
            SourceRule(pick.choice(PATTERNS), some(PATTERNS), some(PATTERNS), some(PATTERNS, 1))
            for _ in range(pick.randint(0, 3))
        ),
        destinations=tuple(
            DestinationRule(
                some(PATTERNS), pick.choice(ACCOUNTS), some(PATTERNS), pick.choice(TAGS)
            )
            for _ in range(pick.randint(0, 3))
        ),
        cluster_scoped_kinds=some(KIND_PATTERNS),
        denied_kinds=some(KIND_PATTERNS, 1),
    )  # fmt: skip
    tags = {"env": pick.choice("ab")} if pick.random() < 0.7 else {}
    cluster = make_cluster(pick.choice(NAMES), tags=tags, project_id=pick.choice(["p", "q", None]))
    roles = list(BuiltInRole)
    scopes = ["installation", "project:p", "project:q", f"cluster:{cluster.id}"]
    kinds = [pick.choice(KINDS) for _ in range(4)]
    rules = ObjectRules(some(PATTERNS), some(KIND_PATTERNS), some(KIND_PATTERNS, 1))
    return World(
        Project("p", "p", START, START, fence=fence),
        cluster,
        [(pick.choice(roles), pick.choice(scopes)) for _ in range(pick.randint(0, 3))],
        FenceSource(
            pick.choice(NAMES), pick.choice(NAMES), pick.choice(NAMES), pick.choice(["", *NAMES])
        ),
        pick.choice(NAMES),
        [
            ObjectRef(group, "v1", kind, _place(kind, pick), pick.choice(NAMES))
            for group, kind in kinds
        ],
        {pick.choice("pq"): Tenant("own:deployer", rules)} if pick.random() < 0.5 else {},
    )


def _place(kind: str, pick: random.Random) -> str:
    return "" if kind in {"Namespace", "ClusterRole"} else pick.choice(NAMES)


# The model


def fits(pattern: str, text: str) -> bool:
    """`*` is any text: head, tail, and enough room between."""
    head, star, tail = pattern.partition("*")
    if not star:
        return pattern == text
    return text.startswith(head) and text.endswith(tail) and len(text) >= len(head) + len(tail)


def listed(patterns: Iterable[str], text: str) -> bool:
    return any(fits(pattern, text) for pattern in patterns)


def is_kind(patterns: Iterable[str], ref: ObjectRef) -> bool:
    for pattern in patterns:
        kind, _, group = pattern.partition(".")
        if pattern == "*" or (fits(kind, ref.kind) and fits(group, ref.group)):
            return True
    return False


def covers(rule: DestinationRule, cluster: Cluster) -> bool:
    if not rule.clusters and not rule.tags:
        return False
    named = not rule.clusters or listed(rule.clusters, cluster.handle)
    return named and all(cluster.tags.get(key) == value for key, value in rule.tags.items())


def may_place(world: World) -> bool:
    """A role on the cluster, or one in the project together with a destination there."""
    home = world.cluster.project_id or "default"

    def writes(*scopes: str) -> bool:
        return any(role in WRITERS and scope in scopes for role, scope in world.roles)

    on_cluster = writes("installation", f"project:{home}", f"cluster:{world.cluster.id}")
    if world.project.id == home:
        return on_cluster
    in_project = writes("installation", f"project:{world.project.id}")
    shared = any(covers(rule, world.cluster) for rule in world.project.fence.destinations)
    return in_project and (shared or on_cluster)


def may_use(world: World) -> bool:
    fence, source = world.project.fence, world.source
    if fence.unrestricted:
        return True
    taken = any(
        fits(rule.url, source.url)
        and (
            listed(rule.charts, source.chart)
            if source.chart
            else not rule.charts
            and (not rule.folders or listed(rule.folders, source.folder))
            and (not rule.refs or listed(rule.refs, source.ref))
        )
        for rule in fence.sources
    )
    return taken and any(
        covers(rule, world.cluster) and listed(rule.namespaces, world.namespace)
        for rule in fence.destinations
    )


def obeys(
    ref: ObjectRef, namespaces: list[str], wide: Iterable[str], denied: Iterable[str]
) -> bool:
    if is_kind(denied, ref):
        return False
    if ref.namespace:
        return listed(namespaces, ref.namespace)
    return is_kind(wide, ref) and (ref.kind != "Namespace" or listed(namespaces, ref.name))


def may_write(world: World, ref: ObjectRef) -> bool:
    """The fence and the tenant of the cluster must both allow an object."""
    fence, tenant = world.project.fence, world.tenants.get("p")
    if world.tenants and (
        tenant is None
        or not obeys(
            ref, list(tenant.rules.namespaces), tenant.rules.cluster_scoped, tenant.rules.denied
        )
    ):
        return False
    if fence.unrestricted:
        return True
    account = account_of(world, world.namespace)
    reached = [name for name in NAMES if account_of(world, name) == account]
    return account is not None and obeys(
        ref, reached, fence.cluster_scoped_kinds, fence.denied_kinds
    )


def account_of(world: World, namespace: str) -> str | None:
    """The account of the first rule for a namespace."""
    return next(
        (
            rule.service_account
            for rule in world.project.fence.destinations
            if covers(rule, world.cluster) and listed(rule.namespaces, namespace)
        ),
        None,
    )


# The program


def places(world: World) -> bool:
    grants = tuple(Grant(BUILT_IN[role], Scope(scope)) for role, scope in world.roles)
    actor = Actor(ActorKind.USER, id="eve", name="eve", policy=Policy(grants))

    def authorize(verb: Verb, resource: Resource) -> None:
        require(actor, verb, resource)

    try:
        tx = cast(Change, SimpleNamespace(authorize=authorize))
        authorize_destination(tx, world.cluster, world.project)
    except (Forbidden, NotFound):
        return False
    return True


def fenced(world: World) -> FencedService:
    service = make_service("s", world.cluster, project_id="p")
    cluster = as_fence_cluster(world.cluster)
    placed = cast(Any, SimpleNamespace(name=service.name, namespace=world.namespace))
    return FencedService(placed, world.project, cluster, (world.source,))


def writes(world: World, part: ServiceFence, ref: ObjectRef) -> bool:
    try:
        narrowed = TenantPolicy(world.tenants).narrowed(part, world.namespace)
        if narrowed is not None:
            narrowed.check(ref)
    except Invalid:
        return False
    return True


def test_ten_thousand_worlds_decide_as_the_model() -> None:
    """All kinds of decisions come out both ways, often enough to mean something."""
    seen: dict[tuple[str, bool], int] = {}
    for seed in range(WORLDS):
        world = world_of(seed)
        service = fenced(world)
        decisions = {
            "place": (places(world), may_place(world)),
            "use": (not service.refusal(), may_use(world)),
            **{
                f"write {number}": (writes(world, service.part, ref), may_write(world, ref))
                for number, ref in enumerate(world.objects)
            },
        }
        for question, (decided, expected) in decisions.items():
            assert decided == expected, f"world {seed}: {question}: {world}"
            key = (question.split()[0], expected)
            seen[key] = seen.get(key, 0) + 1
    assert min(seen.values()) > WORLDS // 50 and len(seen) == 6, seen
