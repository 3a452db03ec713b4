"""Rules of fences: patterns, kinds and namespaces."""

import re
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import Invalid
from core.spec.fences import (
    ObjectRules,
    ServiceFence,
    check_service_account,
    qualified_account,
)
from core.spec.objects import ObjectRef
from core.wildcards import check_pattern, matches, overlap
from core.wire import codec

_LETTERS = st.text("ab-.*", min_size=0, max_size=8)


def _ref(kind: str, namespace: str = "", name: str = "x", group: str = "") -> ObjectRef:
    return ObjectRef(group, "v1", kind, namespace, name)


@given(_LETTERS, st.text("ab-.", max_size=8))
def test_a_star_is_any_text_and_nothing_else_is_special(pattern: str, text: str) -> None:
    expected = re.fullmatch(".*".join(map(re.escape, pattern.split("*"))), text) is not None
    assert matches(pattern, text) == expected


_TEXTS = ["".join(text) for length in range(8) for text in product("ab", repeat=length)]


@given(*[st.text("ab*", max_size=4).filter(lambda text: text.count("*") < 3)] * 2)
def test_patterns_overlap_if_one_text_matches_both(first: str, second: str) -> None:
    found = any(matches(first, text) and matches(second, text) for text in _TEXTS)
    assert overlap(first, second) == found


@given(
    st.lists(st.sampled_from(["shop", "shop-*", "*", "bank", "!shop-*", "!bank"]), max_size=3),
    st.lists(st.sampled_from(["Namespace", "ClusterRole.rbac", "*.rbac", "*"]), max_size=2),
    st.lists(st.sampled_from(["Secret", "*.apps", "Namespace"]), max_size=2),
    st.sampled_from(["", "shop", "shop-1", "bank", "kube-system"]),
    st.sampled_from(
        [("", "Secret"), ("", "Namespace"), ("apps", "Deployment"), ("rbac", "ClusterRole")]
    ),
)
def test_rules_refuse_whatever_no_rule_allows(
    namespaces: list[str],
    cluster_scoped: list[str],
    denied: list[str],
    namespace: str,
    kind: tuple[str, str],
) -> None:
    """A reference model in a few lines, without the code's own shortcuts."""
    ref = _ref(kind[1], namespace, "shop", kind[0])

    def names(patterns: list[str]) -> bool:
        exact = {kind[1] if not kind[0] else ".".join(reversed(kind)), "*"}
        return any(p in exact or (kind[0] and p == f"*.{kind[0]}") for p in patterns)

    def inside(place: str) -> bool:
        for pattern in namespaces:
            p = pattern.removeprefix("!")
            if p in ("*", place) or p == "shop-*" and place.startswith("shop-"):
                return p == pattern
        return False

    allowed = not names(denied)
    if namespace:
        allowed = allowed and inside(namespace)
    else:
        allowed = allowed and names(cluster_scoped) and (kind[1] != "Namespace" or inside("shop"))
    rules = ObjectRules(tuple(namespaces), tuple(cluster_scoped), tuple(denied))
    assert (rules.refusal(ref) == "") == allowed


def test_every_rule_of_a_fence_must_allow_an_object() -> None:
    wide, narrow = ObjectRules(("*",)), ObjectRules(("shop",))
    for rules in ((wide, narrow), (narrow, wide)):
        ServiceFence("shop", rules=rules).check(_ref("ConfigMap", "shop"))
        with pytest.raises(Invalid, match="ConfigMap bank/x is outside the fence of project shop"):
            ServiceFence("shop", rules=rules).check(_ref("ConfigMap", "bank"))


def test_a_fence_without_rules_allows_everything() -> None:
    for kind, namespace in product(("ClusterRole", "Secret"), ("", "kube-system")):
        ServiceFence("default").check(_ref(kind, namespace))


@pytest.mark.parametrize("pattern", ["", "a?", "[ab]", "a b", "*" * 9, "-a", "a" * 513, "{a,b}"])
def test_an_invalid_pattern_is_refused(pattern: str) -> None:
    with pytest.raises(Invalid, match="is not a pattern"):
        check_pattern(pattern, "namespaces")


@pytest.mark.parametrize("account", ["", ":a", "a:", "a:b:c", "A", "a/b", "a b", "a" * 300])
def test_an_invalid_service_account_is_refused(account: str) -> None:
    with pytest.raises(Invalid, match="is not the name of a service account"):
        check_service_account(account, "serviceAccount")


def test_an_account_is_by_default_in_the_service_s_namespace() -> None:
    assert qualified_account("deployer", "shop") == "shop:deployer"
    assert qualified_account("infra:deployer", "shop") == "infra:deployer"
    assert qualified_account("", "shop") == ""


def test_a_fence_survives_the_wire() -> None:
    fence = ServiceFence(
        "shop", "shop:deployer", (ObjectRules(("!ab", "a*"), ("B.c",), ("D",)),), 7
    )
    assert codec.fence_from_message(codec.fence_to_message(fence)) == fence


@pytest.mark.parametrize(
    ("ref", "reason"),
    [
        (_ref("ConfigMap", "a"), ""),
        (_ref("ConfigMap", "b"), "the namespace b is not allowed (allowed: a, c-*)"),
        (
            _ref("ConfigMap", "c-x"),
            "the namespace c-x is not allowed (an earlier rule gives c-x to another service "
            "account)",
        ),
        (_ref("ConfigMap", "c-y"), ""),
        (_ref("ConfigMap", "B" * 90), f"'{'B' * 80}' is not the name of a namespace"),
        (_ref("K-" * 50, "a"), f"'{'K-' * 40}' is not a kind"),
        (_ref("Secret", "a"), "objects of the kind Secret are denied (rule Secret)"),
        (_ref("Secret", "a", group="x.io"), ""),
        (_ref("Role", "a", group="x.io"), "objects of the kind Role.x.io are denied (rule *.x.io)"),
        (_ref("Node"), "cluster-scoped objects of the kind Node are not allowed"),
        (_ref("Namespace", name="a"), ""),
        (_ref("Namespace", name="b"), "the namespace b is not allowed (allowed: a, c-*)"),
        (_ref("Namespace", name="b", group="y.io"), ""),
    ],
)
def test_a_refusal_names_what_is_wrong(ref: ObjectRef, reason: str) -> None:
    denied = ("Secret", "*.x.io") if ref.kind != "Secret" else ("Secret",)
    rules = ObjectRules(("a", "!c-x", "c-*"), ("Namespace", "Namespace.y.io"), denied)
    assert rules.refusal(ref) == reason
    nothing = ObjectRules().refusal(_ref("ConfigMap", "a"))
    assert nothing == "the namespace a is not allowed (allowed: none)"
