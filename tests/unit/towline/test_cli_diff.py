"""A difference as people read it."""

import json
from typing import Any

from tests.fakes.api import FakeApi
from towline.cli.services import generated as operations
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
