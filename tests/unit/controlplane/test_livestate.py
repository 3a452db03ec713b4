"""Paths of live objects, their redaction, and their events."""

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.services.model.live_state import (
    HIDDEN,
    MAX_EVENTS,
    events_path,
    object_path,
    parse_events,
    redact_object,
)
from controlplane.services.model.service import Component
from core.errors import Invalid
from core.identity import ClusterId, ServiceId

NOW = datetime(2026, 5, 1, tzinfo=UTC)
RESOURCES: list[dict[str, Any]] = [
    {"name": "pods/status", "kind": "Pod"},
    {"name": "pods", "kind": "Pod"},
    {"name": "namespaces", "kind": "Namespace"},
]


def component(kind: str, namespace: str, name: str, group: str = "") -> Component:
    service, cluster = ServiceId("s"), ClusterId("c")
    return Component(
        "id", service, cluster, group, "v1", kind, namespace, name, "u", "", None, "", True, (), NOW
    )


@pytest.mark.parametrize(
    ("one", "path"),
    [
        (component("Pod", "shop", "web"), "/api/v1/namespaces/shop/pods/web"),
        (component("Namespace", "", "shop"), "/api/v1/namespaces/shop"),
        (component("Pod", "a/../b", "x?y"), "/api/v1/namespaces/a%2F..%2Fb/pods/x%3Fy"),
        (component("Pod", "n", "x", "g.example"), "/apis/g.example/v1/namespaces/n/pods/x"),
        (component("Pod", "n", "x", "g/../h"), "/apis/g%2F..%2Fh/v1/namespaces/n/pods/x"),
    ],
)
def test_an_object_is_read_where_its_kind_is_served(one: Component, path: str) -> None:
    assert object_path(one, RESOURCES) == path


@pytest.mark.parametrize(
    ("group", "kind"), [("", "Widget of v1 v1"), ("g.example", "Widget of g.example v1")]
)
def test_a_kind_that_is_not_served_is_said(group: str, kind: str) -> None:
    with pytest.raises(Invalid, match=f"serves no {kind}"):
        object_path(component("Widget", "", "x", group), [*RESOURCES, {"kind": "Widget"}])


def test_values_of_secrets_never_leave() -> None:
    live = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": "x",
            "managedFields": [{"manager": "m"}],
            "annotations": {
                "kubectl.kubernetes.io/last-applied-configuration": "s3cret",
                "keep": "1",
            },
        },
        "data": {"password": "czNjcmV0"},
        "stringData": {"other": "s3cret"},
    }
    redacted = redact_object(live)
    assert redacted["data"] == {"password": HIDDEN} and redacted["stringData"] == {"other": HIDDEN}
    assert redacted["metadata"] == {"name": "x", "annotations": {"keep": "1"}}
    assert "s3cret" not in str(redacted) and "czNjcmV0" not in str(redacted)


@pytest.mark.parametrize(
    ("version", "kind"), [("v1", "ConfigMap"), ("secrets.example/v1", "Secret")]
)
def test_values_of_other_objects_are_shown(version: str, kind: str) -> None:
    live = {"apiVersion": version, "kind": kind, "metadata": {"name": "x"}, "data": {"mode": "a"}}
    assert redact_object(live) == live


def event(uid: str, last: str | None, **more: Any) -> dict[str, Any]:
    about = {"uid": uid, "kind": "Pod", "name": "web", "namespace": "shop"}
    return {"involvedObject": about, "lastTimestamp": last, "reason": "Started", **more}


def test_events_of_these_objects_newest_first() -> None:
    events = [
        event("a", "2026-01-01T00:00:00Z", count=3),
        event("b", "2026-01-03T00:00:00Z"),
        event("a", None, eventTime="2026-01-02T00:00:00.5Z"),
        event("a", None),
        event("a", "never"),
    ]
    found = parse_events(events, frozenset({"a"}))
    assert [one.last_at and one.last_at.day for one in found] == [2, 1, None, None]
    assert found[1].count == 3


def test_an_event_has_its_facts_wherever_its_version_puts_them() -> None:
    """Events of `events.k8s.io` have a series and a reporting component, and times of their own."""
    old = event(
        "a", "2026-01-03T00:00:00Z", firstTimestamp="2026-01-01T00:00:00Z", type="Warning",
        message="pulled", count=2, source={"component": "kubelet"}, reportingComponent="other",
    )  # fmt: skip
    series = {"count": 7, "lastObservedTime": "2026-01-02T00:00:00Z"}
    new = event(
        "a", None, eventTime="2026-01-01T00:00:00Z", series=series, reportingComponent="scheduler"
    )
    first, second = parse_events([old, new], frozenset({"a"}))
    assert (first.kind, first.namespace, first.name) == ("Pod", "shop", "web")
    assert (first.type, first.reason, first.message) == ("Warning", "Started", "pulled")
    assert (first.count, first.source) == (2, "kubelet")
    assert (second.count, second.source, second.message) == (7, "scheduler", "")
    for found, last in ((first, 3), (second, 2)):
        assert found.first_at == datetime(2026, 1, 1, tzinfo=UTC)
        assert found.last_at == datetime(2026, 1, last, tzinfo=UTC)


def test_an_event_of_any_length_is_cut() -> None:
    long = "x" * 5_000
    about = {"uid": "a", "kind": long, "name": long, "namespace": long}
    texts = {"type": long, "reason": long, "message": long, "reportingComponent": long}
    received = {**event("a", None, count="many", **texts), "involvedObject": about}
    (found,) = parse_events([received], frozenset({"a"}))
    shown = found.kind, found.namespace, found.name, found.type, found.reason, found.source
    assert [len(text) for text in shown] == [253, 253, 253, 64, 256, 256]
    assert (len(found.message), found.count) == (4_096, 1)


def test_a_time_without_a_zone_is_no_time() -> None:
    (found,) = parse_events([event("a", "2026-01-01T00:00:00")], frozenset({"a"}))
    assert found.last_at is None


@given(st.permutations(["Scheduled", "Pulled", "Created", "Started"]))
def test_events_of_one_second_are_grouped_by_object_newest_first(received: list[str]) -> None:
    names = {"Scheduled": "1", "Pulled": "a", "Created": "c", "Started": "f"}
    events = [
        {**event("a", "2026-01-01T00:00:00Z"), "reason": reason, "metadata": {"name": f"web.{end}"}}
        for reason, end in ((reason, names[reason]) for reason in received)
    ]
    other = {"uid": "a", "kind": "Deployment", "name": "web"}
    events.insert(2, {**event("a", "2026-01-01T00:00:00Z"), "involvedObject": other})
    found = parse_events(events, frozenset({"a"}))
    assert [one.kind for one in found] == ["Deployment", "Pod", "Pod", "Pod", "Pod"]
    assert [one.reason for one in found[1:]] == ["Started", "Created", "Pulled", "Scheduled"]


@given(st.lists(st.recursive(st.none() | st.text() | st.integers(), st.lists)))
def test_whatever_a_cluster_tells_is_taken_without_failing(items: list[Any]) -> None:
    assert parse_events(items, frozenset({"a"})) == []


def test_no_more_events_than_are_shown() -> None:
    events = [event("a", "2026-01-01T00:00:00Z") for _ in range(MAX_EVENTS + 5)]
    assert len(parse_events(events, frozenset({"a"}))) == MAX_EVENTS


def test_events_are_asked_for_one_object_or_a_namespace() -> None:
    assert events_path("shop") == "/api/v1/namespaces/shop/events?limit=500"
    assert "fieldSelector=involvedObject.uid%3Du1" in events_path("", "u1")
