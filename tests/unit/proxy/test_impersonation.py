"""Users and groups that a user may act as: patterns by kind, without accidental matches."""

import pytest

from proxy.domain.access import Impersonation, ImpersonationRule

RULE = ImpersonationRule.of(
    [
        "user:*@example.org",
        "user:bo?",
        "group:team-*",
        "serviceaccount:ci:*",
        "uid:1",
        "extra:scope*",
    ]
)
ALL = ImpersonationRule.of(["*"])


@pytest.mark.parametrize(
    ("target", "part"),
    [
        (Impersonation("ann@example.org"), None),
        (Impersonation("ann@example.org", ("team-a", "team-b"), "1", (("scopes", "x"),)), None),
        (Impersonation("system:serviceaccount:ci:build"), None),
        (Impersonation("bo?"), None),
        (Impersonation("bob"), 'user "bob"'),
        (Impersonation("ann@example.org.evil"), 'user "ann@example.org.evil"'),
        (Impersonation("ann@example.org", ("team-a", "root")), 'group "root"'),
        (Impersonation("ann@example.org", (), "2"), 'uid "2"'),
        (Impersonation("ann@example.org", (), None, (("other", "x"),)), 'extra "other"'),
        (Impersonation("system:serviceaccount:kube-system:x"),
         'user "system:serviceaccount:kube-system:x"'),
        (Impersonation("system:serviceaccount:ci"), 'user "system:serviceaccount:ci"'),
    ],
)  # fmt: skip
def test_patterns_decide_part_by_part(target: Impersonation, part: str | None) -> None:
    """Every part has to be allowed; the first that is not is named."""
    assert RULE is not None
    assert RULE.forbidden_part(target) == part


def test_everybody_does_not_mean_the_system() -> None:
    """`*` reaches people and service accounts; `system:` names must be written out."""
    assert ALL is not None
    assert ALL.forbidden_part(Impersonation("anybody", ("any",), "1", (("a", "b"),))) is None
    assert ALL.forbidden_part(Impersonation("system:serviceaccount:a:b")) is None
    assert ALL.forbidden_part(Impersonation("system:admin")) is not None
    assert ALL.forbidden_part(Impersonation("a", ("system:nodes",))) is not None


@pytest.mark.parametrize("patterns", [["*"], ["group:*"], ["group:system:*"]])
def test_masters_must_be_named_in_full(patterns: list[str]) -> None:
    """No pattern reaches `system:masters`."""
    rule = ImpersonationRule.of(["user:a", *patterns])
    named = ImpersonationRule.of(["user:a", "group:system:masters"])
    assert rule is not None and named is not None
    target = Impersonation("a", ("system:masters",))
    assert rule.forbidden_part(target) == 'group "system:masters"'
    assert named.forbidden_part(target) is None


@pytest.mark.parametrize("patterns", [[], ["nonsense"], ["role:x"]])
def test_no_pattern_is_no_rule(patterns: list[str]) -> None:
    """Then nobody may be impersonated at all."""
    assert ImpersonationRule.of(patterns) is None
