"""A difference as people read it."""

import json
from datetime import timedelta
from typing import Any

import pytest
from typer.testing import CliRunner

from core.runtime.now import utc_now
from tests.fakes.api import FakeApi
from towline.cli.clusters import clusters
from towline.cli.clusters import generated as cluster_api
from towline.cli.program import app
from towline.cli.services import generated as operations
from towline.cli.services import service_diff
from towline.cli.services.live_diff import live_difference
from towline.cli.services.service_diff import lines

FIELD = {"pointer": "/data/v", "old": '"1"', "new": None}


def change(kind: str, **more: Any) -> dict[str, Any]:
    """One object of an answer."""
    base = {"change": kind, "kind": "ConfigMap", "namespace": "shop", "name": "a"}
    return {**base, "fields": [], "more": 0, **more}


def answer(*objects: dict[str, Any], **sums: int) -> Any:
    return {"added": 0, "removed": 0, "changed": 0, "sha": None, **sums, "objects": objects}


def test_objects_and_fields_have_their_lines() -> None:
    response = answer(
        change("ADDED"), change("CHANGED", fields=[FIELD], more=2), added=1, changed=1
    )
    assert list(lines({**response, "sha": "3f2c1ab" * 5})) == [
        "1 added, 0 removed, 1 changed at 3f2c1ab3f2",
        "+ ConfigMap shop/a",
        "~ ConfigMap shop/a",
        '    /data/v: "1" → (none)',
        "    and 2 more",
    ]


def test_omitted_objects_are_counted() -> None:
    assert list(lines(answer(change("REMOVED"), removed=9)))[-1] == "and 8 more objects"


def test_no_control_character_reaches_the_terminal() -> None:
    response = answer(
        change("CHANGED", name="a\x1b[2J", fields=[{**FIELD, "old": "\x1b"}]), changed=1
    )
    assert "\x1b" not in "".join(lines(response))


def component(id: str, *, synced: bool = False, kind: str = "ConfigMap") -> dict[str, Any]:
    base = {"group": "", "version": "v1", "namespace": "shop", "name": id}
    return {"id": id, "synced": synced, "kind": kind, **base}


def test_objects_that_differ_in_the_cluster_are_compared_with_git() -> None:
    desired = {"data": {"v": "1", "a/b": "x"}, "ports": [{"port": 80}]}
    live = {"data": {"v": "2"}, "ports": [{"port": 80}, {"port": 81}]}
    contents: dict[str, dict[str, str | None]] = {
        "edited": {"desired": json.dumps(desired), "live": json.dumps(live)},
        "gone": {"desired": json.dumps(desired), "live": None},
        "repaired": {"desired": json.dumps(live), "live": json.dumps(live)},
        "child": {"desired": None, "live": json.dumps(live)},
    }
    components = [*map(component, contents), component("same", synced=True)]
    api = FakeApi(
        {
            operations.SYNCED_OBJECTS: {
                "serviceDeployment": {"digest": "sha256:1", "components": components}
            },
            operations.OBJECT_CONTENT: lambda id: {
                "component": {"component": {"content": contents[id]}}
            },
        }
    )
    assert list(lines(live_difference(api, "s"))) == [
        "0 added, 1 removed, 1 changed",
        "~ ConfigMap shop/edited",
        '    /data/a~1b: "x" → (none)',
        '    /data/v: "1" → "2"',
        '    /ports/1: (none) → {"port": 81}',
        "- ConfigMap shop/gone",
    ]
    assert {"id": "same"} not in api.sent(operations.OBJECT_CONTENT)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({}, ""),
        (
            {"errors": [{"source": "render", "message": "no such folder", "reason": ""}]},
            "compares with aaaaaaaaaa, as Git has no newer render: no such folder",
        ),
        (
            {"cluster": {"id": "c", "handle": "dev", "pingedAt": None}},
            "last report of the cluster: the agent of dev has never connected",
        ),
    ],
)
def test_a_comparison_with_an_old_state_says_so(
    monkeypatch: pytest.MonkeyPatch, more: dict[str, Any], said: str
) -> None:
    """`0 changed` could otherwise mean that all is well."""
    seen = {"id": "c", "handle": "dev", "pingedAt": utc_now().isoformat()}
    service = {"id": "s", "name": "web", "sha": "a" * 40, "errors": [], "cluster": seen} | more
    objects = {"digest": "sha256:1", "components": []}
    api = FakeApi(
        {
            operations.SERVICE: {"serviceDeployment": service},
            operations.SYNCED_OBJECTS: {"serviceDeployment": objects},
        }
    )
    monkeypatch.setattr(service_diff, "connect", lambda _: api)
    result = CliRunner().invoke(app, ["services", "diff", "dev/web"])
    assert result.exit_code == 0
    assert said in result.stderr if said else result.stderr == ""


@pytest.mark.parametrize(
    ("minutes", "said"), [(0, ""), (9, "was last seen 9m ago"), (None, "has never connected")]
)
def test_a_silent_cluster_says_what_to_check(
    monkeypatch: pytest.MonkeyPatch, minutes: int | None, said: str
) -> None:
    seen = None if minutes is None else (utc_now() - timedelta(minutes=minutes)).isoformat()
    found = {
        "id": "c", "handle": "dev", "name": "dev", "tags": [], "currentVersion": "1",
        "agentVersion": "1", "nodeCount": 1, "pingedAt": seen, "agentAlarm": None, "freeze": None,
        "agentTokenExpiresAt": None, "deletedAt": None,
    }  # fmt: skip
    monkeypatch.setattr(
        clusters, "connect", lambda _: FakeApi({cluster_api.CLUSTER: {"cluster": found}})
    )
    result = CliRunner().invoke(app, ["clusters", "get", "dev"])
    assert result.exit_code == 0
    assert said in result.stderr and ("agent doctor" in result.stderr) is bool(said)
