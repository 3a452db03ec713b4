"""Rules of fences by themselves: their limits, and the account that stands for a namespace."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.authorization import (
    DestinationRule,
    Fence,
    FenceCluster,
    FenceSource,
    ImageRule,
    SourceRule,
)
from core.errors import Invalid
from core.spec.fences import MAX_NAMESPACES, ObjectRules, ServiceFence
from core.spec.objects import ObjectRef
from core.spec.source_signatures import SignerSet

PROD = FenceCluster("prod", {"env": "prod"})
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIB2cbi5fHroMtyFnzWJUc7AcM5yP+/yRtAQppHPcyK3I"


def place(namespaces: str, account: str, *clusters: str) -> DestinationRule:
    return DestinationRule((namespaces,), account, clusters or ("*",))


def tagged(tags: dict[str, str]) -> DestinationRule:
    return DestinationRule(("*",), tags=tags)


def signers(count: int) -> tuple[SignerSet, ...]:
    return tuple(SignerSet(f"keys-{number}", f"ada@example.org {KEY}") for number in range(count))


def test_objects_stay_in_namespaces_of_the_account_that_applies_them() -> None:
    """A rule for another account, or for another cluster, opens no namespace to this one."""
    fence = Fence(
        destinations=(
            place("web", "shop:web"),
            place("jobs", "shop:web"),
            place("vault", "shop:vault"),
            place("far", "shop:web", "far"),
        )
    )
    inside = fence.of_service("shop", PROD, "web")
    assert inside == ServiceFence("shop", "shop:web", (ObjectRules(("web", "jobs")),))
    for namespace in ("web", "jobs"):
        inside.check(ObjectRef("", "", "ConfigMap", namespace, "c"))
    for namespace in ("vault", "far"):
        with pytest.raises(Invalid, match=f"namespace {namespace} is not allowed"):
            inside.check(ObjectRef("", "", "ConfigMap", namespace, "c"))


def test_a_rule_for_all_namespaces_leaves_those_of_earlier_rules_to_their_accounts() -> None:
    """Otherwise the account of the last rule writes into every namespace of the fence."""
    fence = Fence(
        destinations=(
            place("vault", "vault:deployer"),
            place("far", "vault:deployer", "far"),
            place("jobs", "shop:web"),
            place("web-*", "web:deployer"),
            place("*", "shop:web"),
            place("late", "vault:deployer"),
        )
    )
    inside = fence.of_service("shop", PROD, "shop")
    assert inside == ServiceFence(
        "shop", "shop:web", (ObjectRules(("!vault", "jobs", "!web-*", "*")),)
    )
    for namespace in ("shop", "jobs", "far", "late", "web"):
        inside.check(ObjectRef("", "", "ConfigMap", namespace, "c"))
    for namespace, pattern in (("vault", "vault"), ("web-1", r"web-\*")):
        with pytest.raises(
            Invalid,
            match=f"namespace {namespace} is not allowed "
            rf"\(an earlier rule gives {pattern} to another service account\)",
        ):
            inside.check(ObjectRef("", "", "ConfigMap", namespace, "c"))


names = st.sampled_from(["a", "b", "ab"])
destinations = st.lists(
    st.builds(
        place,
        st.sampled_from(["a", "b", "a*", "*b", "*"]),
        st.sampled_from(["", "one", "ops:two"]),
        st.sampled_from(["prod", "dev", "*"]),
    ),
    max_size=5,
)


@given(destinations, names, names)
def test_an_account_writes_only_where_the_first_rule_names_it(
    rules: list[DestinationRule], home: str, other: str
) -> None:
    """The model: the first rule for a namespace gives its account, to services and to objects."""
    fence = Fence(destinations=tuple(rules)).of_service("p", PROD, home)

    def account_of(namespace: str) -> str | None:
        for rule in rules:
            (pattern,), (cluster,) = rule.namespaces, rule.clusters
            head, star, tail = pattern.partition("*")
            fits = namespace.startswith(head) and namespace.endswith(tail)
            if cluster != "dev" and (fits if star else namespace == pattern):
                return rule.service_account
        return None

    account = account_of(home)
    allowed = all(not rule.refusal(ObjectRef("", "", "Pod", other, "p")) for rule in fence.rules)
    assert allowed == (account is not None and account_of(other) == account)
    assert fence.service_account == (f"{home}:one" if account == "one" else account or "")


def test_the_service_that_lost_its_destination_writes_nothing() -> None:
    lost = Fence(cluster_scoped_kinds=("*",)).of_service("shop", PROD, "web")
    for ref in (ObjectRef("", "", "Pod", "web", "p"), ObjectRef("", "", "Namespace", "", "web")):
        with pytest.raises(Invalid, match="outside the fence of project shop"):
            lost.check(ref)


def test_an_unrestricted_fence_has_no_rules() -> None:
    """Also if it still lists some."""
    fence = Fence(
        unrestricted=True,
        sources=(SourceRule("https://git/*", signed_by=("keys-0",)),),
        images=(ImageRule("registry/*", ("keys-0",)),),
        destinations=(place("web", "deployer", "far"),),
        signers=signers(1),
        denied_kinds=("*",),
        max_objects=1,
    ).checked()
    assert fence.image_rules() == ()
    assert fence.of_service("shop", PROD, "bank") == ServiceFence("shop")
    source = FenceSource("https://elsewhere/x", "", "main")
    assert fence.source_refusal(source) == fence.destination_refusal(PROD, "bank") == ""
    everything = "the fence allows everything"
    assert fence.source_rule(source) == fence.destination_rule(PROD, "bank") == everything


def test_the_rule_that_allows_is_named() -> None:
    """The first one that allows, and none for what is refused."""
    fence = Fence(
        sources=(
            SourceRule("https://git/shop", folders=("apps/*",)),
            SourceRule("https://git/*", refs=("v*",)),
        ),
        destinations=(DestinationRule(("web",), "d", ("prod", "dev"), {"env": "prod", "a": "b"}),),
    )
    web = FenceSource("https://git/shop", "apps/web", "v1")
    assert fence.source_rule(web) == "source rule https://git/shop"
    assert fence.source_rule(replace(web, folder="x")) == "source rule https://git/*"
    assert fence.source_rule(replace(web, folder="x", ref="main")) == ""
    tagged = FenceCluster("dev", {"env": "prod", "a": "b", "c": "d"})
    assert fence.destination_rule(tagged, "web") == "destination rule prod, dev, a=b, env=prod"
    assert fence.destination_rule(tagged, "other") == ""
    assert not fence.reaches(FenceCluster("dev", {"env": "prod"}))


def test_a_refused_source_is_named_with_its_folder_and_ref() -> None:
    refusal = Fence().source_refusal(FenceSource("https://git/shop", "", "main"))
    assert refusal == "no source rule allows https://git/shop, folder / at main"


def test_charts_need_no_signature_of_a_commit() -> None:
    """A rule about charts is one about each of its charts, and not about the repository."""
    fence = Fence(
        sources=(SourceRule("https://charts/*", charts=("redis",), signed_by=("keys-0",)),),
        signers=signers(1),
    )
    used = [FenceSource("https://charts/x", chart="redis"), FenceSource("https://git/shop")]
    (rule,) = fence.signature_rules(used).sources
    assert (rule.url, rule.charts, rule.signed_by) == ("https://charts/*", ("redis",), signers(1))
    unsigned = replace(fence, sources=(SourceRule("https://charts/*", charts=("redis",)),))
    assert unsigned.signature_rules(used).sources == ()


GOOD, BAD = "a" * 512, "a" * 513
TAGS = {f"{number:0255}": "b" * 255 for number in range(64)}
SIGNED_BY = ("keys-0",) * 20
AT_LIMIT = Fence(
    sources=(SourceRule("*", signed_by=SIGNED_BY),) * 100,
    images=(ImageRule("*", SIGNED_BY),) * 100,
    destinations=tuple(
        DestinationRule((GOOD,) * 50, f"account-{number}", ("*",) * 50, TAGS)
        for number in range(100)
    ),
    cluster_scoped_kinds=("*",) * 100,
    denied_kinds=("*",) * 100,
    signers=signers(20),
    max_services=1_000_000,
    max_objects=1_000_000,
    max_renders_per_minute=1_000_000,
    max_open_streams=1_000_000,
)


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"sources": AT_LIMIT.sources * 2}, "fence"),
        ({"images": (*AT_LIMIT.images, ImageRule("*"))}, "fence"),
        ({"destinations": (*AT_LIMIT.destinations, place("*", ""))}, "fence"),
        ({"signers": signers(21)}, "fence.signers"),
        ({"sources": (SourceRule(BAD),)}, "fence.sources.url"),
        ({"sources": (SourceRule("*", folders=(BAD,)),)}, "fence.sources"),
        ({"sources": (SourceRule("*", refs=(BAD,)),)}, "fence.sources"),
        ({"sources": (SourceRule("*", ("*",) * 50, ("*",) * 51),)}, "fence.sources"),
        ({"sources": (SourceRule("*", charts=(BAD,)),)}, "fence.sources.charts"),
        ({"destinations": (place(BAD, ""),)}, "fence.destinations"),
        ({"destinations": (place("*", "", BAD),)}, "fence.destinations"),
        ({"destinations": (place("*", "", *("*",) * 100),)}, "fence.destinations"),
        ({"destinations": (tagged(TAGS | {"c": ""}),)}, "fence.destinations.tags"),
        ({"destinations": (tagged({"a" * 256: ""}),)}, "fence.destinations.tags"),
        ({"destinations": (tagged({"a": "b" * 256}),)}, "fence.destinations.tags"),
        ({"sources": (SourceRule("*", signed_by=("keys-0",) * 21),)}, "fence.sources.signedBy"),
        ({"images": (ImageRule("*", ("keys-0",) * 21),)}, "fence.images.signedBy"),
        ({"cluster_scoped_kinds": ("*",) * 101}, "fence.clusterScopedKinds"),
        ({"cluster_scoped_kinds": ("a b",)}, "fence.clusterScopedKinds"),
        ({"denied_kinds": ("?",)}, "fence.deniedKinds"),
        ({"max_services": 1_000_001}, "fence.maxServices"),
        ({"max_objects": 1_000_001}, "fence.maxObjects"),
        ({"max_renders_per_minute": 1_000_001}, "fence.maxRendersPerMinute"),
        ({"max_open_streams": -1}, "fence.maxOpenStreams"),
        ({"images": (ImageRule("*", ("nobody",)),)}, "fence.images.signedBy"),
    ],
)
def test_a_fence_is_bounded_in_each_part(change: dict[str, object], field: str) -> None:
    """A fence at all of its limits is accepted."""
    assert AT_LIMIT.checked() is AT_LIMIT
    with pytest.raises(Invalid) as error:
        replace(AT_LIMIT, **change).checked()
    assert error.value.field == field


@pytest.mark.parametrize("account", ["", "deployer"])
@pytest.mark.parametrize(("extra", "is_allowed"), [(0, True), (1, False)])
def test_a_cluster_whose_tags_unite_rules_has_as_many_patterns_as_an_agent_accepts(
    account: str, extra: int, is_allowed: bool
) -> None:
    """Nobody knows the tags of clusters when a fence is saved. The refusal names the account."""
    names = tuple(f"team-{number}" for number in range(MAX_NAMESPACES + extra))
    rules = (
        DestinationRule(names[:90], account, tags={"env": "prod"}),
        DestinationRule(names[90:180], account, ("*",), {"env": "prod"}),
        DestinationRule(names[180:], account, ("prod",)),
    )
    fence = Fence(destinations=rules).checked()
    refusal = fence.destination_refusal(PROD, "team-1")
    assert (refusal == "") is is_allowed
    named = "service account deployer" if account else "the agent itself"
    assert is_allowed or (named in refusal and "cluster prod" in refusal)
    assert fence.destination_refusal(FenceCluster("prod"), "team-201") == ""
