"""Choosing clusters, and groups of them."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from controlplane.authorization import DEFAULT_PROJECT, DestinationRule, Fence
from controlplane.clusters.model.cluster import AgentMode, Cluster, Distribution
from controlplane.clusters.model.groups import ClusterGroup
from controlplane.clusters.model.selectors import Fleet, Selector
from controlplane.platform.labels import LabelOperator, LabelRequirement, parse_selector
from core.errors import Invalid
from core.identity import ClusterId

NOW = datetime(2026, 5, 1, tzinfo=UTC)


def cluster(name: str, **fields: Any) -> Cluster:
    return replace(Cluster(ClusterId(name), name, name, NOW, NOW), **fields)


FLEET = Fleet(
    (
        cluster("eu", tags={"region": "eu", "tier": "prod"}, distribution=Distribution.EKS),
        cluster("us", tags={"region": "us", "tier": "prod"}, project_id="shop"),
        cluster("dev", tags={"tier": "dev"}),
        cluster("going", tags={"tier": "prod"}, ending_at=NOW),
        cluster("own", tags={"tier": "prod"}, mode=AgentMode.AUTONOMOUS),
    ),
    (
        ClusterGroup("g", "canary", NOW, NOW, cluster_ids=("dev",), tags={"region": "us"}),
        ClusterGroup("f", "frozen", NOW, NOW, tags={"tier": "prod"}, frozen=True),
        ClusterGroup("e", "empty", NOW, NOW),
        ClusterGroup("p", "of a project", NOW, NOW, "shop", tags={"tier": "prod"}),
    ),
)


@pytest.mark.parametrize(
    ("selector", "project", "found"),
    [
        (Selector(), None, ["dev", "eu", "us"]),
        (Selector(tags={"tier": "prod"}), None, ["eu", "us"]),
        (Selector(tags={"tier": "prod", "region": "eu"}), None, ["eu"]),
        (Selector(match_expressions=parse_selector("region")), None, ["eu", "us"]),
        (Selector(match_expressions=parse_selector("region notin (eu)")), None, ["dev", "us"]),
        (
            Selector(
                tags={"tier": "prod"}, match_expressions=parse_selector("region in (eu,ap),!old")
            ),
            None,
            ["eu"],
        ),
        (Selector(distribution=Distribution.EKS), None, ["eu"]),
        (Selector(groups=("g",)), None, ["dev", "us"]),
        (Selector(groups=("e",)), None, []),
        (Selector(groups=("p",)), None, ["us"]),
        (Selector(groups=("g", "p")), None, ["dev", "us"]),
        (Selector(groups=("e", "p")), None, ["us"]),
        (Selector(groups=("g",), tags={"tier": "dev"}), None, ["dev"]),
        (Selector(excluded=("eu",)), None, ["dev", "us"]),
        (Selector(project_id="shop"), None, ["us"]),
        (Selector(), "shop", ["us"]),
        (Selector(), DEFAULT_PROJECT, ["dev", "eu"]),
        (Selector(project_id=DEFAULT_PROJECT), "shop", []),
    ],
)
def test_all_conditions_must_hold(
    selector: Selector, project: str | None, found: list[str]
) -> None:
    assert [one.handle for one in FLEET.matching(selector, project)] == found


def test_a_project_selects_the_clusters_that_its_fence_names() -> None:
    """With all conditions of the selector, and none that is about to end."""
    rule = DestinationRule(("shop",), "deployer", tags={"tier": "prod"})
    fenced = replace(FLEET, fence=Fence(destinations=(rule,)))
    assert [one.handle for one in fenced.matching(Selector(), "shop")] == ["eu", "us"]
    in_eu = Selector(tags={"region": "eu"})
    assert [one.handle for one in fenced.matching(in_eu, "shop")] == ["eu"]
    own = Selector(project_id="shop")
    assert [one.handle for one in fenced.matching(own, "shop")] == ["us"]


def test_a_group_that_is_gone_is_no_empty_group() -> None:
    with pytest.raises(Invalid, match="cluster group nope does not exist"):
        FLEET.matching(Selector(groups=("nope",)), None)


def test_frozen_clusters_are_those_of_frozen_groups() -> None:
    assert FLEET.frozen().keys() == {"eu", "us", "going", "own"}


@pytest.mark.parametrize(
    "selector",
    [
        Selector(tags={"a": ""}),
        Selector(tags={"n" * 64: "x"}),
        Selector(tags={f"t{n}": "x" for n in range(65)}),
        Selector(groups=("g",) * 1001),
        Selector(excluded=("c",) * 1001),
    ],
)
def test_selectors_out_of_bounds_are_refused(selector: Selector) -> None:
    with pytest.raises(Invalid):
        selector.checked()


def test_a_selector_at_its_limits_is_accepted() -> None:
    tags = {f"{number}".rjust(63, "t"): "x" for number in range(64)}
    names = tuple(str(number) for number in range(1000))
    full = Selector(tags, groups=names, excluded=names)
    assert full.checked() == full


@pytest.mark.parametrize(
    "expressions",
    [
        (LabelRequirement("region", LabelOperator.In),),
        (LabelRequirement("-", LabelOperator.Exists),),
        (LabelRequirement("region", LabelOperator.Exists),) * 11,
    ],
)
def test_wrong_expressions_are_refused(expressions: tuple[LabelRequirement, ...]) -> None:
    with pytest.raises(Invalid) as error:
        Selector(match_expressions=expressions).checked()
    assert error.value.field == "matchExpressions"
