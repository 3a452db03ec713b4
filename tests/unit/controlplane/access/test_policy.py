"""Decisions, held to a model that says the same in a few lines."""

from dataclasses import dataclass, replace
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.authorization import (
    ADMIN,
    ANONYMOUS,
    BUILT_IN,
    DEFAULT_PROJECT,
    EDITOR,
    INSTALLATION,
    VIEWER,
    Actor,
    ActorKind,
    Grant,
    KubernetesRights,
    KubernetesRule,
    Limit,
    Policy,
    Resource,
    ResourceKind,
    Role,
    Rule,
    Scope,
    Verb,
    require,
    require_any,
    without_doubt,
)
from controlplane.authorization.policy import ClusterIdentity, ClusterTenant
from controlplane.authorization.roles import KubernetesRequest, check_kubernetes
from core.errors import Forbidden, Invalid, NotFound, Unauthenticated

# A small world: two projects, two clusters in each, two services in each.
TREE = {
    f"service:{p}{c}{s}": f"cluster:{p}{c}"
    for p in "ab"
    for c in "12"
    for s in "xy"
}  # fmt: skip
TREE |= {f"cluster:{p}{c}": f"project:{p}" for p in "ab" for c in "12"}
TREE |= {f"pipeline:{p}": f"project:{p}" for p in "ab"}
TREE |= {"project:a": "installation", "project:b": "installation"}
PLACES = [*TREE, "installation"]


@dataclass(frozen=True)
class Model:
    """The reference: walk up the tree, ask each role; then the token."""

    grants: list[tuple[Role, str]]
    limits: list[Limit]

    def may(self, verb: Verb, kind: ResourceKind, place: str) -> bool:
        above = self.above(place)
        granted = any(
            scope in above
            and any(
                (not rule.verbs or verb in rule.verbs) and (not rule.kinds or kind in rule.kinds)
                for rule in role.rules
            )
            for role, scope in self.grants
        )
        let_through = not self.limits or any(
            (not one.verbs or verb in one.verbs)
            and (not one.kinds or kind in one.kinds)
            and (not one.scopes or any(scope in above for scope in one.scopes))
            for one in self.limits
        )
        return granted and let_through

    def above(self, place: str) -> list[str]:
        return [place] + (self.above(TREE[place]) if place in TREE else [])


def target_at(place: str) -> Resource:
    """The target of a place in the small world."""
    path = [place]
    while path[0] in TREE:
        path.insert(0, TREE[path[0]])
    kind, _, id = place.partition(":")
    return Resource(ResourceKind(kind), id, tuple(Scope(one) for one in path))


places = st.sampled_from(PLACES)
verbs, kinds = st.sampled_from(list(Verb)), st.sampled_from(list(ResourceKind))
rules = st.builds(
    Rule,
    st.lists(verbs, max_size=2).map(tuple),
    st.lists(kinds, max_size=3).map(tuple),
)
custom = st.builds(
    lambda some: Role("custom", "custom", rules=tuple(some)), st.lists(rules, max_size=2)
)
roles = st.one_of(st.sampled_from(list(BUILT_IN.values())), custom)
grants = st.lists(st.tuples(roles, places), max_size=4)
limits = st.lists(
    st.builds(
        Limit,
        st.lists(verbs, max_size=2).map(tuple),
        st.lists(kinds, max_size=2).map(tuple),
        st.lists(places, max_size=2).map(tuple),
    ),
    max_size=2,
)


def policy_of(given: list[tuple[Role, str]], narrowed: list[Limit]) -> Policy:
    return Policy(tuple(Grant(role, Scope(scope)) for role, scope in given), tuple(narrowed))


@given(grants, limits, verbs, places)
def test_decisions_are_those_of_the_model(
    given: list[tuple[Role, str]], narrowed: list[Limit], verb: Verb, place: str
) -> None:
    """Roles are inherited downwards, tokens narrow, and nothing else allows anything."""
    target = target_at(place)
    expected = Model(given, narrowed).may(verb, target.kind, place)
    policy = policy_of(given, narrowed)
    assert policy.may(verb, target) == expected
    assert bool(policy.reasons(verb, target)) == expected


@given(grants, limits, kinds)
def test_lists_show_exactly_what_may_be_read(
    given: list[tuple[Role, str]], narrowed: list[Limit], kind: ResourceKind
) -> None:
    """The visible set selects a row if and only if it may be read by itself."""
    policy = policy_of(given, narrowed)
    visible = policy.visible(kind)
    for place in PLACES:
        target = Resource(kind, "id", target_at(place).path)
        shown = all(not scopes.isdisjoint(target.path) for scopes in visible)
        assert shown == policy.may(Verb.READ, target)


@given(grants, roles, places, grants)
def test_nobody_gains_by_giving(
    given: list[tuple[Role, str]], role: Role, place: str, others: list[tuple[Role, str]]
) -> None:
    """A covered grant never allows more than its giver can do at that place."""
    giver = policy_of(given, [])
    if not giver.covers(role, target_at(place)):
        return
    before, after = policy_of(others, []), policy_of([*others, (role, place)], [])
    for where in PLACES:
        target = target_at(where)
        for verb in Verb:
            if after.may(verb, target) and not before.may(verb, target):
                assert giver.may(verb, target)


def test_a_proxy_never_opens_wider_by_giving() -> None:
    """Groups, impersonation and what is let through are compared too."""
    narrow = KubernetesRights(("team",), (KubernetesRule(("get",)),), (), record=True)
    connect = (Rule((Verb.READ, Verb.CONNECT), (ResourceKind.CLUSTER,)),)
    holder = Policy((Grant(Role("r", "r", rules=connect, kubernetes=narrow)),))
    everywhere = Resource.whole(ResourceKind.INSTALLATION)
    same = Role("s", "s", rules=connect, kubernetes=narrow)
    assert holder.covers(same, everywhere)
    for wider in (
        KubernetesRights(("team", "other"), narrow.rules, (), record=True),
        KubernetesRights(("team",), (), (), record=True),
        KubernetesRights(("team",), (KubernetesRule(("list",)),), (), record=True),
        KubernetesRights(("team",), narrow.rules, ("user:*",), record=True),
        KubernetesRights(("team",), narrow.rules, (), record=False),
    ):
        assert not holder.covers(Role("w", "w", rules=connect, kubernetes=wider), everywhere)
    assert Policy((Grant(ADMIN),)).covers(same, everywhere)
    watched = replace(narrow, record_input=True)
    strict = Policy((Grant(replace(same, kubernetes=watched)),))
    assert strict.covers(replace(same, kubernetes=watched), everywhere)
    assert not strict.covers(same, everywhere)


patterns = st.lists(st.sampled_from(["get", "list"]), max_size=1).map(tuple)
kube_rights = st.builds(
    KubernetesRights,
    st.lists(st.sampled_from(["team", "ops"]), max_size=2, unique=True).map(tuple),
    st.lists(st.builds(KubernetesRule, patterns), max_size=2).map(tuple),
    st.lists(st.sampled_from(["*", "user:*"]), max_size=2, unique=True).map(tuple),
    record=st.booleans(),
    record_input=st.booleans(),
)
CONNECT = (Rule((Verb.CONNECT,), (ResourceKind.CLUSTER,)),)


def identity_with(role: Role, verb: str) -> ClusterIdentity | None:
    """The identity for a request in a cluster, of holders of nothing but this role."""
    cluster = Resource.within(ResourceKind.CLUSTER, "a", "1")
    return Policy((Grant(role),)).cluster_identity(cluster, KubernetesRequest(verb))


@given(kube_rights, kube_rights)
def test_nobody_connects_wider_by_giving(own: KubernetesRights, given: KubernetesRights) -> None:
    """Whoever gets a covered role reaches, appears and escapes recording no more than its giver."""
    holder = Role("own", "own", rules=CONNECT, kubernetes=own)
    role = Role("given", "given", rules=CONNECT, kubernetes=given)
    everywhere = Resource.whole(ResourceKind.INSTALLATION)
    assert Policy((Grant(holder),)).covers(holder, everywhere)
    if not Policy((Grant(holder),)).covers(role, everywhere):
        return
    for verb in ("get", "list", "delete"):
        giver, getter = identity_with(holder, verb), identity_with(role, verb)
        if getter is None:
            continue
        assert giver is not None
        assert "*" in giver.impersonate or (
            {*getter.groups} <= {*giver.groups} and {*getter.impersonate} <= {*giver.impersonate}
        )
        assert getter.record >= giver.record and getter.record_input >= giver.record_input


def test_a_role_without_kubernetes_rules_is_wider_than_one_with_rules() -> None:
    """It forwards every request, and records none."""
    bare = Role("bare", "bare", rules=CONNECT)
    everywhere = Resource.whole(ResourceKind.INSTALLATION)
    for limited in (
        KubernetesRights(rules=(KubernetesRule(("get",)),)),
        KubernetesRights(record=True),
        KubernetesRights(record=True, impersonate=("*",)),
    ):
        holder = Policy((Grant(Role("l", "l", rules=CONNECT, kubernetes=limited)),))
        assert not holder.covers(bare, everywhere)
        assert holder.covers(Role("none", "none"), everywhere)
    assert Policy((Grant(bare),)).covers(bare, everywhere)


def test_rights_that_only_a_role_without_connections_has_cover_nothing() -> None:
    """Kubernetes rights count for those who may connect."""
    wide = KubernetesRights(("team",))
    idle = Grant(Role("idle", "idle", rules=(Rule((Verb.READ,)),), kubernetes=wide))
    bare = Grant(Role("bare", "bare", rules=CONNECT))
    role = Role("team", "team", rules=CONNECT, kubernetes=wide)
    assert not Policy((idle, bare)).covers(role, Resource.whole(ResourceKind.INSTALLATION))


def test_rights_wait_for_the_permission_to_connect() -> None:
    """A role without it gets it by a later change, so its rights are compared now."""
    later = Role("later", "later", kubernetes=KubernetesRights(("team",)))
    bare = Policy((Grant(Role("bare", "bare", rules=CONNECT)),))
    assert not bare.covers(later, Resource.whole(ResourceKind.INSTALLATION))


def test_rights_in_another_scope_cover_nothing() -> None:
    team = Role("team", "team", rules=CONNECT, kubernetes=KubernetesRights(("team",)))
    policy = Policy((Grant(Role("bare", "bare", rules=CONNECT)), Grant(team, Scope("project:b"))))
    assert policy.covers(team, target_at("project:b"))
    assert not policy.covers(team, target_at("project:a"))


def test_input_is_kept_only_with_output() -> None:
    with pytest.raises(Invalid, match="record"):
        check_kubernetes(KubernetesRights(record_input=True))
    both = KubernetesRights(record=True, record_input=True)
    assert check_kubernetes(both) is both


def test_the_proxy_takes_groups_only_of_roles_that_let_the_request_pass() -> None:
    """Each request is judged with the roles that allow it; nobody gets all groups for one rule."""
    cluster = Resource.within(ResourceKind.CLUSTER, "shop", "c")
    connect = (Rule((Verb.CONNECT,), (ResourceKind.CLUSTER,)),)
    reader = Role(
        "r", "reader", rules=connect,
        kubernetes=KubernetesRights(("readers",), (KubernetesRule(("get", "list")),)),
    )  # fmt: skip
    operator = Role(
        "o", "operator", rules=connect,
        kubernetes=KubernetesRights(
            ("operators",), (KubernetesRule(namespaces=("shop-*",)),), record=True
        ),
    )  # fmt: skip
    typist = Role(
        "t", "typist", rules=connect,
        kubernetes=KubernetesRights(
            (), (KubernetesRule(names=("vault",)),), record=True, record_input=True
        ),
    )  # fmt: skip
    policy = Policy((Grant(reader), Grant(operator, cluster.scope), Grant(typist)))
    listed = policy.cluster_identity(cluster, KubernetesRequest("list", "", "pods", "other"))
    assert listed is not None and (listed.groups, listed.record) == (("readers",), False)
    exec_ = policy.cluster_identity(
        cluster, KubernetesRequest("create", "", "pods/exec", "shop-dev", "web")
    )
    assert exec_ is not None and (exec_.groups, exec_.record) == (("operators",), True)
    assert not exec_.record_input
    vault = policy.cluster_identity(
        cluster, KubernetesRequest("create", "", "pods/exec", "shop-dev", "vault")
    )
    assert vault is not None and vault.record_input
    assert (
        policy.cluster_identity(cluster, KubernetesRequest("delete", "", "pods", "other", "web"))
        is None
    )


def test_one_role_that_records_is_enough_for_a_recording() -> None:
    """Another role that permits the same request without one does not prevent it."""
    recorded = KubernetesRights(("ops",), record=True, record_input=True)
    pair = (Role("a", "a", rules=CONNECT), Role("b", "b", rules=CONNECT, kubernetes=recorded))
    cluster = Resource.within(ResourceKind.CLUSTER, "shop", "c")
    for roles_in_order in (pair, pair[::-1]):
        policy = Policy(tuple(Grant(role) for role in roles_in_order))
        found = policy.cluster_identity(cluster, KubernetesRequest("create", "", "pods/exec"))
        assert found is not None and found.record and found.record_input


def test_the_rules_of_a_tenants_role_limit_requests_to_a_shared_cluster() -> None:
    rights = KubernetesRights(("readers",), (KubernetesRule(("get",)),), record=True)
    role = Role("r", "reader", rules=CONNECT, kubernetes=rights)
    policy = Policy((Grant(role, Scope("project:shop"), "b1"),))
    shared = Resource.within(ResourceKind.CLUSTER, "platform", "c")
    tenants = (ClusterTenant("shop", "shop"), ClusterTenant("bank", "bank"))
    found = policy.cluster_identity(shared, KubernetesRequest("get", "", "pods"), tenants)
    assert found is not None and found.record
    assert (found.groups, found.binding_ids) == (("towline:shop:readers",), ("b1",))
    assert found.scopes == ("project:shop",)
    assert policy.cluster_identity(shared, KubernetesRequest("delete"), tenants) is None
    assert policy.cluster_identity(shared, KubernetesRequest("get"), tenants[1:]) is None


@pytest.mark.parametrize(
    ("limit", "connects"),
    [
        (Limit(), True),
        (Limit(verbs=(Verb.CONNECT,), kinds=(ResourceKind.CLUSTER,)), True),
        (Limit(scopes=(Scope("project:shop"),)), True),
        (Limit(scopes=(Scope("cluster:c"),)), True),
        (Limit(verbs=(Verb.READ,)), False),
        (Limit(kinds=(ResourceKind.SERVICE,)), False),
        (Limit(scopes=(Scope("project:bank"),)), False),
        (Limit(scopes=(Scope("cluster:other"),)), False),
        (Limit(scopes=(Scope("project:platform"),)), False),
    ],
)
def test_a_limited_token_of_a_tenant_connects_to_a_shared_cluster_only_within_its_limits(
    limit: Limit, connects: bool
) -> None:
    """A token that was made to read, or for another project, opens no terminal there. The project
    of the cluster is not that of the role.
    """
    role = Role("r", "r", rules=CONNECT, kubernetes=KubernetesRights(("readers",)))
    grants = (Grant(role, Scope("project:shop")),)
    shared = Resource.within(ResourceKind.CLUSTER, "platform", "c")
    tenants = (ClusterTenant("shop", "shop"),)
    found = Policy(grants, (limit,)).cluster_identity(shared, None, tenants)
    assert (found is not None) is connects
    assert found is None or found.groups == ("towline:shop:readers",)


def test_a_role_that_may_not_connect_gives_no_groups() -> None:
    """Neither beside a role of the same user that may, nor in a tenant."""
    reads = (Rule((Verb.READ,), (ResourceKind.CLUSTER,)),)
    idle = Role("i", "idle", rules=reads, kubernetes=KubernetesRights(("admins",), record=True))
    role = Role("r", "reader", rules=CONNECT, kubernetes=KubernetesRights(("readers",)))
    cluster, shop = Resource.within(ResourceKind.CLUSTER, "platform", "c"), Scope("project:shop")
    own = Policy((Grant(idle, binding_id="b1"), Grant(role, binding_id="b2")))
    found = own.cluster_identity(cluster)
    assert found is not None and not found.record
    assert (found.groups, found.binding_ids, found.why) == (("readers",), ("b2",), "role reader")
    tenants = (ClusterTenant("shop", "my/shop"),)
    shared = Policy((Grant(idle, shop), Grant(role, shop))).cluster_identity(cluster, None, tenants)
    assert shared is not None and not shared.record
    assert shared.groups == ("towline:my%2Fshop:readers",)
    assert shared.why == "role reader in project my/shop"
    assert Policy((Grant(idle, shop),)).cluster_identity(cluster, None, tenants) is None


fields = st.sampled_from(["", "a", "ab", "b"])
some_patterns = st.lists(st.sampled_from(["a", "a*", "b", "*"]), max_size=2).map(tuple)
kube_rules = st.builds(KubernetesRule, *[some_patterns] * 5)


@given(st.lists(kube_rules, max_size=2), st.builds(KubernetesRequest, *[fields] * 5))
def test_a_request_passes_if_one_rule_matches_it_in_every_field(
    given: list[KubernetesRule], request: KubernetesRequest
) -> None:
    def listed(patterns: tuple[str, ...], value: str) -> bool:
        return not patterns or any(
            value.startswith(pattern[:-1]) if pattern.endswith("*") else value == pattern
            for pattern in patterns
        )

    expected = not given or any(
        listed(rule.verbs, request.verb)
        and listed(rule.groups, request.group)
        and listed(rule.resources, request.resource)
        and listed(rule.namespaces, request.namespace)
        and listed(rule.names, request.name)
        for rule in given
    )
    rights = KubernetesRights(rules=tuple(given))
    assert rights.allows(request) == expected
    assert rights.allows(None) and rights.allows(replace(request, describes=True))


@pytest.mark.parametrize("part", ["verbs", "groups", "resources", "namespaces", "names"])
def test_one_field_that_differs_is_enough_to_refuse_a_request(part: str) -> None:
    request = KubernetesRequest("get", "apps", "deployments", "shop", "web")
    whole = KubernetesRule(("get",), ("apps",), ("deployments",), ("shop",), ("web",))
    rights = KubernetesRights(rules=(whole,))
    assert rights.allows(request)
    other = KubernetesRights(rules=(replace(whole, **{part: ("other",)}),))
    assert not other.allows(request)
    assert KubernetesRights(rules=(replace(whole, **{part: ()}),)).allows(request)


@pytest.mark.parametrize(
    ("limit", "allowed"),
    [
        (Limit(), True),
        (Limit(verbs=(Verb.READ, Verb.WRITE)), True),
        (Limit(verbs=(Verb.READ,)), False),
        (Limit(kinds=(ResourceKind.SERVICE, ResourceKind.CLUSTER)), True),
        (Limit(kinds=(ResourceKind.CLUSTER,)), False),
        (Limit(scopes=(Scope("project:a"),)), True),
        (Limit(scopes=(Scope("project:b"), Scope("service:x"))), True),
        (Limit(scopes=(Scope("project:b"),)), False),
        (Limit((Verb.WRITE,), (ResourceKind.SERVICE,), (Scope("project:b"),)), False),
        (Limit((Verb.WRITE,), (ResourceKind.CLUSTER,), (Scope("project:a"),)), False),
        (Limit((Verb.READ,), (ResourceKind.SERVICE,), (Scope("project:a"),)), False),
        (Limit((Verb.WRITE,), (ResourceKind.SERVICE,), (Scope("project:a"),)), True),
    ],
)
def test_a_token_permits_what_each_part_of_its_limit_permits(limit: Limit, allowed: bool) -> None:
    service = Resource.within(ResourceKind.SERVICE, "a", "x")
    assert limit.allows(Verb.WRITE, service) is allowed
    policy = Policy((Grant(BUILT_IN["editor"]),), (limit,))
    assert policy.may(Verb.WRITE, service) is allowed
    assert bool(policy.reasons(Verb.WRITE, service)) is allowed
    both = Policy(policy.grants, (Limit(kinds=(ResourceKind.USER,)), limit))
    assert both.may(Verb.WRITE, service) is allowed, "one limit of several is enough"


def test_a_rule_without_verbs_or_kinds_has_all_of_them() -> None:
    assert Rule().rights == {(verb, kind) for verb in Verb for kind in ResourceKind}
    assert Rule((Verb.PAUSE,)).rights == {(Verb.PAUSE, kind) for kind in ResourceKind}
    kinds = (ResourceKind.CONTEXT, ResourceKind.CONTEXT)
    rule = Rule(kinds=kinds)
    assert rule.rights == {(verb, ResourceKind.CONTEXT) for verb in Verb}
    assert rule.without_duplicates() == Rule(kinds=kinds[:1])


def test_a_resource_of_the_installation_is_in_no_project() -> None:
    """Also not in one whose id is empty or `None`, and not in a scope of its own."""
    kind = ResourceKind.REPOSITORY
    assert Resource.of_project(kind, None, "1", "x").path == ("installation",)
    assert Resource.of_project(kind, "a", "1").path == ("installation", "project:a", "repository:1")


def test_a_resource_is_in_its_own_scope_and_in_all_above() -> None:
    """A role in any of them holds for it; all of a kind are in the scope where they are asked."""
    cluster = Resource.within(ResourceKind.CLUSTER, "a", "1", "dev")
    service = cluster.below(ResourceKind.SERVICE, "x")
    assert service.path == ("installation", "project:a", "cluster:1", "service:x")
    assert cluster.below(ResourceKind.SERVICE).path == cluster.path
    assert Resource.within(ResourceKind.CLUSTER, "a").path == ("installation", "project:a")
    assert (service.scope, cluster.below(ResourceKind.SERVICE).scope) == ("service:x", "cluster:1")
    assert (str(cluster), str(service)) == ('cluster "dev"', 'service "x"')
    assert str(Resource.within(ResourceKind.REPOSITORY, "a")) == "repositories"


def test_acting_as_others_takes_the_patterns_of_all_grants() -> None:
    patterns = (("user:*@example.org",), ("group:team-*", "user:*@example.org"))
    grants = tuple(
        Grant(
            Role(
                "r", "r", rules=(Rule((Verb.CONNECT,), (ResourceKind.CLUSTER,)),),
                kubernetes=KubernetesRights(impersonate=impersonate),
            )
        )
        for impersonate in patterns
    )  # fmt: skip
    cluster_identity = Policy(grants).cluster_identity(
        Resource.within(ResourceKind.CLUSTER, "shop", "c")
    )
    assert cluster_identity is not None
    assert sorted(cluster_identity.impersonate) == ["group:team-*", "user:*@example.org"]


def test_refusals_read_alike_for_foreign_and_absent() -> None:
    """Unreadable resources look absent; readable ones name the missing permission."""
    mine = Actor(ActorKind.USER, "u", policy=Policy((Grant(VIEWER, Scope("project:a")),)))
    foreign = Resource.within(ResourceKind.CLUSTER, "b", "c", "prod")
    with pytest.raises(NotFound) as absent:
        require(mine, Verb.WRITE, foreign)
    assert absent.value.message == NotFound().message
    with pytest.raises(Forbidden, match='write cluster "dev": needs role editor'):
        require(mine, Verb.WRITE, Resource.within(ResourceKind.CLUSTER, "a", "d", "dev"))
    with pytest.raises(Unauthenticated, match="sign in"):
        require(ANONYMOUS, Verb.READ, foreign)


def test_a_role_in_the_default_project_holds_there_only() -> None:
    policy = Policy((Grant(EDITOR, Scope(f"project:{DEFAULT_PROJECT}")),))
    assert policy.may(Verb.WRITE, Resource.within(ResourceKind.CLUSTER, DEFAULT_PROJECT, "c"))
    assert not policy.may(Verb.WRITE, Resource.within(ResourceKind.CLUSTER, "other", "c"))


def test_a_policy_lasts_until_its_first_grant_ends() -> None:
    """A cache knows how long a policy is good."""
    soon, later = (datetime(2026, 1, day, tzinfo=UTC) for day in (1, 2))
    policy = Policy((Grant(VIEWER, expires_at=later), Grant(EDITOR, expires_at=soon)))
    assert policy.until == soon
    assert Policy((Grant(VIEWER), Grant(EDITOR, expires_at=later))).until == later
    assert Policy((Grant(VIEWER, INSTALLATION),)).until is None


def test_grants_last_until_a_time_or_forever() -> None:
    """To grant a role for an hour, an hour of it is enough."""
    soon, later = (datetime(2026, 1, day, tzinfo=UTC) for day in (1, 2))
    brief, long, forever = (
        Grant(VIEWER, expires_at=soon),
        Grant(EDITOR, expires_at=later),
        Grant(ADMIN),
    )
    limit = (Limit((Verb.READ,)),)
    policy = Policy((brief, long, forever), limit)
    assert policy.lasting(soon) == policy
    assert policy.lasting(later) == Policy((long, forever), limit)
    assert policy.lasting(None) == Policy((forever,), limit)


def test_names_in_kubernetes_rights_are_bounded() -> None:
    """Rules count with each of their words."""
    words = ("n" * 253,) * 100
    rule = KubernetesRule(words, words, words, words, words[1:])
    full = KubernetesRights(impersonate=words[:1], rules=(rule,))
    assert check_kubernetes(full) is full
    for wider in (
        replace(full, groups=("one",)),
        replace(full, rules=(rule, KubernetesRule(("get",)))),
        KubernetesRights(impersonate=("",)),
        KubernetesRights(rules=(KubernetesRule(names=("x" * 254,)),)),
    ):
        with pytest.raises(Invalid, match="at most 500 names") as error:
            check_kubernetes(wider)
        assert error.value.field == "kubernetes"
    assert check_kubernetes(KubernetesRights(("x",), impersonate=("system:x",))).groups == ("x",)


@pytest.mark.parametrize("group", ["system:masters", "", "x" * 254])
def test_groups_of_kubernetes_itself_are_not_handed_out(group: str) -> None:
    with pytest.raises(Invalid):
        check_kubernetes(KubernetesRights((group,)))


def reader_in(*scopes: str, limits: tuple[Limit, ...] = ()) -> Actor:
    """A viewer in these scopes."""
    viewers = tuple(Grant(VIEWER, Scope(scope)) for scope in scopes)
    return Actor(ActorKind.USER, "vi", "vi", policy=Policy(viewers, limits))


@pytest.mark.parametrize("kind", ["project", "repository", "pipeline", "secret", "context"])
def test_a_role_in_a_cluster_reads_nothing_outside_of_clusters(kind: str) -> None:
    """Terraform takes NotFound for a deletion, so it must not mean a missing role."""
    in_cluster, in_project = reader_in("cluster:c1"), reader_in("project:p1")
    missing = NotFound(kind=kind)
    assert isinstance(without_doubt(in_cluster, missing), Forbidden)
    assert without_doubt(in_project, missing) is missing
    assert isinstance(without_doubt(in_cluster, NotFound(kind="cluster")), NotFound)
    assert isinstance(without_doubt(in_cluster, NotFound(kind="service")), NotFound)


@given(st.lists(places, max_size=3), limits, places.filter(lambda place: ":" in place))
def test_what_may_be_readable_is_missing_and_all_else_is_forbidden(
    scopes: list[str], narrowed: list[Limit], place: str
) -> None:
    """Terraform takes NotFound for a deletion, so it must not mean a missing role."""
    kind = target_at(place).kind
    actor = reader_in(*scopes, limits=tuple(narrowed))
    readable = any(
        actor.may(Verb.READ, target_at(other)) for other in PLACES if target_at(other).kind is kind
    )
    error = without_doubt(actor, NotFound(kind=kind))
    if readable:
        assert isinstance(error, NotFound)
    if not narrowed:
        assert isinstance(error, NotFound if readable else Forbidden)


@pytest.mark.parametrize("kind", ["user", "group", "role", "installation"])
def test_resources_of_the_installation_are_missing_for_those_who_read_them(kind: str) -> None:
    """A role in a project reads none of them, also if it has every permission there."""
    missing = NotFound(kind=kind)
    for scope, expected in (("project:a", Forbidden), ("installation", NotFound)):
        policy = Policy((Grant(ADMIN, Scope(scope)),))
        assert type(without_doubt(Actor(ActorKind.USER, policy=policy), missing)) is expected


def test_a_role_in_a_repository_reads_its_bindings_and_no_secret() -> None:
    actor = Actor(ActorKind.USER, policy=Policy((Grant(ADMIN, Scope("repository:r")),)))
    for kind, expected in (
        (ResourceKind.REPOSITORY, NotFound),
        (ResourceKind.BINDING, NotFound),
        (ResourceKind.SECRET, Forbidden),
        (ResourceKind.SERVICE, Forbidden),
    ):
        assert type(without_doubt(actor, NotFound(kind=kind))) is expected


def test_other_errors_stay_as_they_are() -> None:
    """Also a missing reference, which has no kind."""
    for error in (Invalid("no", field="name"), NotFound("no such role"), Unauthenticated("who?")):
        assert without_doubt(reader_in(), error) is error


def test_a_limited_token_is_told_that_its_scopes_may_be_the_reason() -> None:
    limit = Limit((Verb.READ,), (), ())
    limited = replace(reader_in("project:a"), policy=Policy((Grant(ADMIN),), (limit,)))
    dev = Resource.within(ResourceKind.CLUSTER, "a", "d", "dev")
    with pytest.raises(Forbidden) as error:
        require(limited, Verb.WRITE, dev)
    assert error.value.message == (
        'vi may not write cluster "dev": needs role editor, or a token with wider scopes'
    )
    with pytest.raises(Forbidden) as error:
        require(reader_in("project:a"), Verb.WRITE, dev)
    assert error.value.message == 'vi may not write cluster "dev": needs role editor'


def test_some_scope_is_enough_for_lists() -> None:
    """And none makes lists forbidden, before anything is read."""
    require_any(reader_in("project:a"), Verb.READ, ResourceKind.PIPELINE)
    with pytest.raises(Forbidden, match="may not approve pipelines: needs role editor"):
        require_any(reader_in("project:a"), Verb.APPROVE, ResourceKind.PIPELINE)
    narrow = Limit(kinds=(ResourceKind.CLUSTER,))
    with pytest.raises(Forbidden, match="may not read pipelines"):
        require_any(reader_in("project:a", limits=(narrow,)), Verb.READ, ResourceKind.PIPELINE)
    with pytest.raises(Unauthenticated):
        require_any(ANONYMOUS, Verb.READ, ResourceKind.PIPELINE)


def test_a_long_name_is_cut_to_the_columns_of_the_audit_log() -> None:
    assert Actor(ActorKind.USER, name="n" * 400).shown_name == "n" * 320
    assert Actor(ActorKind.USER, name="Ada", email="ada@example.org").shown_name == (
        "ada@example.org"
    )
