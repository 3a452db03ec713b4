"""Label selectors: the words of kubectl, and the resources that they select."""

import pytest

from controlplane.platform.labels import LabelRequirement, parse_selector
from core.errors import Invalid


def test_a_selector_has_the_words_of_kubectl() -> None:
    assert parse_selector("") == ()
    assert parse_selector("team=a, tier==web,env!=prod,owner,!old,x.io/y=") == (
        LabelRequirement("team", "a"),
        LabelRequirement("tier", "web"),
        LabelRequirement("env", "prod", negated=True),
        LabelRequirement("owner"),
        LabelRequirement("old", negated=True),
        LabelRequirement("x.io/y", ""),
    )


@pytest.mark.parametrize(
    "text", ["=a", "!", "!=a", "!team=a", "a b", "a=b," * 11, "x" * 501, "env in (a)"]
)
def test_other_selectors_are_refused(text: str) -> None:
    with pytest.raises(Invalid) as error:
        parse_selector(text)
    assert error.value.field == "labels"


@pytest.mark.parametrize(
    ("selector", "matches"),
    [("team=a", True), ("team=b", False), ("team!=b", True), ("env", True), ("!env", False)],
)
def test_one_of_several_sets_of_labels_is_enough(selector: str, matches: bool) -> None:
    (requirement,) = parse_selector(selector)
    assert requirement.matches({"team": "a"}, {"env": "prod"}) is matches
