"""Label selectors select the same objects as those of an API server, and fail for the same text."""

import json
import re
from urllib.parse import quote

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from controlplane.platform.labels import parse_selector
from core.errors import Invalid, Unavailable
from towline.demo.clusters.cluster import LocalCluster

LABELS: dict[str, dict[str, str]] = {
    "none": {},
    "prod": {"env": "prod", "tier": "web"},
    "dev": {"env": "dev", "example.org/team": "a"},
    "odd": {"in": "notin", "tier": ""},
}
WORDS = ["env", "tier", "in", "notin", "example.org/team", "prod", "dev", "a", "-a", "a_", "x/y/z"]
SYMBOLS = ["=", "==", "!=", "!", "(", ")", ",", " "]
REQUIREMENTS = [
    "env", "!env", "! tier", "env=prod", "env = prod", "env==dev", "env!=prod", "tier=", "tier!=",
    "env in (prod,dev)", "env notin (prod)", "env notin(prod, dev)", "tier in ()", "tier in (,web)",
    "in in (notin)", "example.org/team=a", "in=notin", "!in",
]  # fmt: skip
SELECTORS = st.one_of(
    st.lists(st.sampled_from(REQUIREMENTS), max_size=3).map(",".join),
    st.lists(st.sampled_from([*WORDS, *SYMBOLS]), max_size=6).map("".join),
)


@pytest.fixture(scope="module")
def labelled(cluster: LocalCluster) -> LocalCluster:
    cluster.kubectl("create", "namespace", "label-selectors")
    for name, labels in LABELS.items():
        cluster.kubectl("create", "configmap", name, "--namespace", "label-selectors")
        words = [f"{key}={value}" for key, value in labels.items()]
        if words:
            cluster.kubectl("label", "configmap", name, *words, "--namespace", "label-selectors")
    return cluster


def selected_by_server(cluster: LocalCluster, selector: str) -> set[str] | None:
    """The names of the selected objects; None: the server refuses the selector."""
    path = f"/api/v1/namespaces/label-selectors/configmaps?labelSelector={quote(selector, safe='')}"
    try:
        answer = cluster.kubectl("get", "--raw", path)
    except Unavailable:
        return None
    names = {item["metadata"]["name"] for item in json.loads(answer)["items"]}
    return names & LABELS.keys()


def selected_here(selector: str) -> set[str] | None:
    try:
        requirements = parse_selector(selector)
    except Invalid:
        return None
    return {
        name
        for name, labels in LABELS.items()
        if all(requirement.matches(labels) for requirement in requirements)
    }


@given(SELECTORS)
@settings(max_examples=150, deadline=None)
def test_an_api_server_selects_the_same(labelled: LocalCluster, selector: str) -> None:
    # The server's parser refuses some lists that end with two commas, against its documentation.
    assume(not re.search(r",\s*,", selector))
    assert selected_here(selector) == selected_by_server(labelled, selector)
