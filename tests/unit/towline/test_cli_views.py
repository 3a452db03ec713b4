"""Saved views in the command line: how a name finds one, and how its query filters a list."""

import re
from pathlib import Path
from typing import Any

import pytest

from core.errors import Invalid, NotFound
from tests.fakes.api import FakeApi
from towline.cli.clusters import generated as cluster_api
from towline.cli.services.views import filter_of_view, state_of
from towline.cli.views import generated as operations
from towline.cli.views.filters import find_view, parse_view

STATES = Path(__file__).parents[3] / "console" / "src" / "ui" / "states.ts"


def make_view(id: str, name: str, **fields: Any) -> operations.SavedView:
    view: Any = {
        **{"id": id, "name": name, "list": "services", "query": "", "filters": {}},
        **{"sharing": "NOBODY", "owner": "", "own": False},
        **fields,
    }
    return view


def api_with(*views: operations.SavedView) -> FakeApi:
    cluster = {"cluster": {"id": "c1", "handle": "dev"}}
    return FakeApi(
        {operations.SAVED_VIEWS: {"savedViews": list(views)}, cluster_api.CLUSTER: cluster}
    )


def test_an_own_view_is_found_before_shared_ones() -> None:
    shared, own = make_view("1", "failed"), make_view("2", "failed", own=True)
    api = api_with(shared, own, make_view("3", "all"), make_view("4", "all"))
    assert find_view(api, "failed", "services") == own
    assert find_view(api, "1") == shared
    with pytest.raises(Invalid, match="use an id: 3 of services, 4 of services"):
        find_view(api, "all")
    with pytest.raises(NotFound, match="towline views list"):
        find_view(api, "none")


def test_a_query_has_words_and_conditions() -> None:
    query = 'web "two words" tag:a=b,c=d state:failed'
    view = make_view("1", "x", query=query, filters={"q2": "v"})
    assert parse_view(view, ("tag", "state", "q2")) == (
        "web two words",
        {"tag": ["a=b", "c=d"], "state": ["failed"], "q2": ["v"]},
    )
    with pytest.raises(Invalid, match="condition q2, which this command does not know"):
        parse_view(view, ("tag", "state"))


def test_a_view_filters_services_as_in_the_console() -> None:
    view = make_view(
        "1", "x", query="web cluster:dev state:failed,progressing tag:tier=web label:a,!b"
    )
    assert filter_of_view(api_with(view), "x") == {
        "q": "web",
        "clusterId": "c1",
        "projectId": None,
        "repositoryId": None,
        "tags": [{"name": "tier", "value": "web"}],
        "labels": "a,!b",
        "status": ["FAILED", "STALE"],
    }
    chip = make_view("1", "x", query="state:healthy", filters={"status": "FAILED"})
    assert filter_of_view(api_with(chip), "x")["status"] == ["FAILED"]
    assert set(filter_of_view(api_with(), None).values()) == {None}


def test_states_are_those_of_the_console() -> None:
    text = STATES.read_text()
    labels = dict(re.findall(r'(\w+): state\("\w+", "(.*)"\)', text))
    block = text[text.index("const SERVICE:") :].partition("};")[0]
    states = dict(re.findall(r"([A-Z_]+): STATES\.(\w+)", block))
    assert len(states) == 10
    for state, name in states.items():
        assert state_of(re.sub(r"\W+", "-", labels[name].lower())) == state
