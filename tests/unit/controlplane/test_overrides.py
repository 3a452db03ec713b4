"""Overrides of one cluster: a patch of the template, shown as a difference."""

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.services.model.service import ServiceSpec
from controlplane.services.model.templates import (
    OverrideDelta,
    ServiceTemplate,
    TemplateOverride,
    apply_override,
    check_override,
    merge_patch,
    override_delta,
)
from core.errors import Invalid
from core.spec.renderers import HELM, chart_ref

TEMPLATE = ServiceTemplate(
    "web",
    "shop",
    "repository",
    ServiceSpec("main", "web", configuration={"replicas": "2", "mode": "plain"}),
)
words = st.dictionaries(st.sampled_from("abc"), st.sampled_from(["1", "2"]), max_size=3)
patches = st.dictionaries(st.sampled_from("abcd"), st.none() | st.sampled_from(["1", "9"]))


def test_only_what_is_given_differs() -> None:
    patch = TemplateOverride(ref="v2", configuration={"replicas": "5", "mode": None, "new": "x"})
    after = apply_override(TEMPLATE, patch)
    assert after.spec.configuration == {"replicas": "5", "new": "x"}
    assert (after.spec.ref, after.spec.folder) == ("v2", "web")
    assert override_delta(TEMPLATE, patch) == (
        OverrideDelta("ref", "main", "v2"),
        OverrideDelta("configuration.mode", "plain", None),
        OverrideDelta("configuration.new", None, "x"),
        OverrideDelta("configuration.replicas", "2", "5"),
    )


def test_a_patch_follows_its_template() -> None:
    """Fields that the patch omits come from the current template: nothing was copied."""
    patch = TemplateOverride(configuration={"replicas": "5"})
    moved = ServiceTemplate(
        "web", "shop", "repository", ServiceSpec("next", "web", configuration={"a": "b"})
    )
    assert apply_override(moved, patch).spec.ref == "next"
    assert apply_override(moved, patch).spec.configuration == {"a": "b", "replicas": "5"}


def test_an_override_equal_to_the_template_is_no_difference() -> None:
    assert (
        override_delta(TEMPLATE, TemplateOverride(ref="main", configuration={"replicas": "2"}))
        == ()
    )
    assert apply_override(TEMPLATE, None) is TEMPLATE
    assert TemplateOverride().empty


def test_values_of_helm_make_it_a_chart() -> None:
    after = apply_override(TEMPLATE, TemplateOverride(helm={"version": "2.0.0"}))
    assert (after.spec.renderer, after.spec.helm) == (HELM, {"version": "2.0.0"})


CHART = ServiceTemplate(
    "cache",
    "cache",
    "charts",
    ServiceSpec(
        chart_ref("redis", "^20"),
        renderer=HELM,
        helm={"chart": "redis", "version": "^20"},
    ),
)


def test_a_version_that_a_cluster_has_otherwise_is_followed() -> None:
    """The ref of a place of charts is what its settings say; of git it is what was chosen."""
    after = apply_override(CHART, TemplateOverride(helm={"version": "19.6.4"}))
    assert after.spec.ref == chart_ref("redis", "19.6.4")
    assert override_delta(CHART, TemplateOverride(helm={"version": "19.6.4"})) == (
        OverrideDelta("ref", chart_ref("redis", "^20"), chart_ref("redis", "19.6.4")),
        OverrideDelta("helm.version", "^20", "19.6.4"),
    )
    after = apply_override(CHART, TemplateOverride(helm={"values": "a: 1"}))
    assert after.spec.ref == CHART.spec.ref
    in_git = ServiceTemplate(
        "w", "w", "git", ServiceSpec("main", helm={"chart": "web", "version": "1"})
    )
    assert apply_override(in_git, TemplateOverride(helm={"version": "2"})).spec.ref == "main"


@pytest.mark.parametrize(
    "patch",
    [
        TemplateOverride(ref="v2"),
        TemplateOverride(folder="x"),
        TemplateOverride(helm={"url": "https://other.example.org"}),
    ],
)
def test_overrides_cannot_change_the_source_of_a_chart(patch: TemplateOverride) -> None:
    with pytest.raises(Invalid):
        check_override(CHART, patch)
    check_override(TEMPLATE, patch)


@given(words, patches)
def test_names_that_a_patch_takes_away_are_gone_and_others_stay(
    base: dict[str, str], patch: dict[str, Any]
) -> None:
    after = merge_patch(base, patch)
    assert all(after[name] == value for name, value in patch.items() if value is not None)
    assert not {name for name, value in patch.items() if value is None} & after.keys()
    assert {n: v for n, v in after.items() if n not in patch} == {
        n: v for n, v in base.items() if n not in patch
    }
    assert merge_patch(after, patch) == after


@pytest.mark.parametrize(
    "patch",
    [
        TemplateOverride(configuration={"a": "b"}),
        TemplateOverride(helm={"version": "1"}),
        TemplateOverride(dry_run=True),
    ],
)
def test_all_else_of_a_chart_can_be_overridden(patch: TemplateOverride) -> None:
    check_override(CHART, patch)


@pytest.mark.parametrize(
    ("base", "patch", "merged"),
    [
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ({"a": "x"}, {"a": {"b": {"c": None}}}, {"a": {"b": {}}}),
        ({"a": None}, {"a": {"b": 1}}, {"a": {"b": 1}}),
    ],
)
def test_patches_are_merged_as_their_standard_says(
    base: dict[str, Any], patch: dict[str, Any], merged: dict[str, Any]
) -> None:
    """RFC 7396, appendix A."""
    before = copy.deepcopy(base)
    assert merge_patch(base, patch) == merged
    assert base == before


def test_objects_are_merged_inside() -> None:
    assert merge_patch({"a": {"b": 1, "c": 2}}, {"a": {"c": None, "d": 3}}) == {
        "a": {"b": 1, "d": 3}
    }
