"""Label selectors: the grammar of Kubernetes, and the resources that they select."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.platform.labels import (
    LabelOperator,
    LabelRequirement,
    check_label_name,
    parse_selector,
)
from core.errors import Invalid

IN, NOT_IN = LabelOperator.In, LabelOperator.NotIn
EXISTS, ABSENT = LabelOperator.Exists, LabelOperator.DoesNotExist


def test_a_selector_has_the_words_of_kubectl() -> None:
    assert parse_selector("") == parse_selector(" \t") == ()
    assert parse_selector("team=a, tier==web,env!=prod,owner,!old,x.io/y=") == (
        LabelRequirement("team", IN, ("a",)),
        LabelRequirement("tier", IN, ("web",)),
        LabelRequirement("env", NOT_IN, ("prod",)),
        LabelRequirement("owner", EXISTS),
        LabelRequirement("old", ABSENT),
        LabelRequirement("x.io/y", IN, ("",)),
    )
    assert parse_selector("env in (b, a,b),tier notin(),in in (in,notin)") == (
        LabelRequirement("env", IN, ("a", "b")),
        LabelRequirement("tier", NOT_IN, ("",)),
        LabelRequirement("in", IN, ("in", "notin")),
    )


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("=a", "found '=' at character 1 of the label selector, expected the name of a label"),
        ("!", "found the end at character 2"),
        ("!team=a", "found '=' at character 6"),
        ("a b", "expected one of =, ==, !=, in and notin"),
        ("a,", "found the end at character 3"),
        ("a=b=c", "expected ',' or the end"),
        ("a in b", "expected '('"),
        ("a in (b", "expected ',' or ')'"),
        ("a in (b c)", "expected ',' or ')'"),
        ("a>1", "found '>' at character 2"),
        ("-a", "'-a' is no name of a label"),
        ("x_y/a", "'x_y/a' is no name of a label"),
        ("a" * 64, "is no name of a label"),
        ("a=" + "b" * 64, "is no value of a label"),
        ("a=b/c", "'b/c' is no value of a label"),
        ("a=b," * 10 + "a", "at most 10 labels"),
        ("a in (" + ",".join(map(str, range(51))) + ")", "at most 50 values, not 51"),
        ("x" * 2001, "at most 2,000 characters"),
    ],
)
def test_other_selectors_are_refused_with_the_place(text: str, reason: str) -> None:
    with pytest.raises(Invalid) as error:
        parse_selector(text)
    assert reason in error.value.message
    assert error.value.field == "labels"


KEYS = st.from_regex(r"([a-z]{1,5}\.io/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,5}[a-z])?", fullmatch=True)
VALUES = st.one_of(st.just(""), st.from_regex(r"[a-z]([-A-Z0-9_.]{0,5}[a-z])?", fullmatch=True))
SPACE = st.text(" \t", max_size=2)


@st.composite
def requirements(draw: st.DrawFn) -> tuple[str, LabelRequirement]:
    """A requirement as the grammar of the documentation writes it, and its meaning."""
    key, space = draw(KEYS), draw(SPACE)
    operator = draw(st.sampled_from(LabelOperator))
    if operator is EXISTS:
        return f"{space}{key}{space}", LabelRequirement(key, EXISTS)
    if operator is ABSENT:
        return f"{space}!{space}{key}", LabelRequirement(key, ABSENT)
    symbols = ["=", "=="] if operator is IN else ["!="]
    if draw(st.booleans()):
        value = draw(VALUES)
        text = f"{key}{space}{draw(st.sampled_from(symbols))}{space}{value}"
        return text, LabelRequirement(key, operator, (value,))
    values = draw(st.lists(VALUES, min_size=1, max_size=4))
    word = "in" if operator is IN else "notin"
    inside = f"{space},{space}".join(values)
    text = f"{key} {word}{space}({inside}{space})"
    return text, LabelRequirement(key, operator, tuple(sorted(set(values))))


@given(st.lists(requirements(), max_size=10))
def test_the_documented_grammar_is_read(parts: list[tuple[str, LabelRequirement]]) -> None:
    text = ",".join(text for text, _ in parts)
    assert parse_selector(text) == tuple(requirement for _, requirement in parts)


@given(st.text("ab!=(),in <>-/\t", max_size=12))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        found = parse_selector(text)
    except Invalid as error:
        assert "label" in error.message or "value" in error.message
        return
    for requirement in found:
        requirement.check("labels")


@pytest.mark.parametrize(
    ("selector", "matches"),
    [
        ("team=a", True),
        ("team=b", False),
        ("team!=b", True),
        ("team!=a", False),
        ("env", True),
        ("!env", False),
        ("!old", True),
        ("team in (b,a)", True),
        ("team in (b,c)", False),
        ("env notin (dev,test)", True),
        ("env notin (dev,prod)", False),
        ("old notin (dev)", True),
        ("old in ()", False),
    ],
)
def test_one_of_several_sets_of_labels_is_enough(selector: str, matches: bool) -> None:
    (requirement,) = parse_selector(selector)
    assert requirement.matches({"team": "a"}, {"env": "prod"}) is matches


@pytest.mark.parametrize(
    "wrong",
    [
        {"operator": IN},
        {"operator": EXISTS, "values": ("a",)},
        {"operator": IN, "values": ("a b",)},
        {"operator": IN, "values": tuple(map(str, range(51)))},
    ],
)
def test_an_expression_that_kubernetes_refuses_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(Invalid) as error:
        LabelRequirement("env", **wrong).check("matchExpressions")
    assert error.value.field == "matchExpressions"


def test_the_prefix_of_a_label_is_a_dns_name() -> None:
    longest = ".".join(["a" * 61] * 4) + ".aaaaa"
    assert len(longest) == 253
    for name in ("app", "example.org/app", f"{longest}/app", "a/b"):
        check_label_name(name, "labels")
    for name in (f"{longest}a/app", "-.org/app", "example..org/app", "Example.org/app", "/app"):
        with pytest.raises(Invalid, match="is no name of a label"):
            check_label_name(name, "labels")
