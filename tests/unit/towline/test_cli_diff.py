"""A difference as people read it."""

from typing import Any

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
