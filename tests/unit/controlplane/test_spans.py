"""A deployment's spans lie inside it, belong together, and are the same whoever tells them."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from controlplane.reports.model.dora import Deployment
from controlplane.reports.model.spans import EndedDeployment, spans_of
from controlplane.services.model.ledger import LedgerStage

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
COLUMNS = ("fetched_at", "offered_at", "applied_at", "healthy_at", "failed_at")
moments = st.none() | st.integers(0, 3600).map(lambda s: NOW + timedelta(seconds=s))


def ended(service: str = "s", repository: str | None = "r", **times: Any) -> EndedDeployment:
    deployment = Deployment(service, 3, "c", LedgerStage.RENDERED, NOW, sha="a" * 40, **times)
    return EndedDeployment(deployment, "web", "prod", repository)


def at(seconds: int) -> datetime:
    return NOW + timedelta(seconds=seconds)


def test_each_stage_that_was_passed_has_its_span() -> None:
    walked = ended(fetched_at=at(-1), offered_at=at(1), applied_at=at(3), healthy_at=at(7))
    whole, *stages = spans_of(walked)
    assert (whole.name, whole.start, whole.end) == ("deploy prod/web", at(-1), at(7))
    taken = {one.name: (one.end - one.start).total_seconds() for one in stages}
    assert taken == {"render": 1, "offer": 1, "apply": 2, "become healthy": 4}
    assert whole.problem == ""


def test_a_failed_deployment_has_a_failed_span() -> None:
    whole, *stages = spans_of(ended(offered_at=at(1), failed_at=at(9)))
    assert whole.end == at(9) and whole.problem
    assert [one.name for one in stages] == ["offer"]


def test_a_failure_after_the_deployment_was_healthy_is_not_in_its_span() -> None:
    whole, *_ = spans_of(ended(healthy_at=at(7), failed_at=at(9)))
    assert (whole.end, whole.problem) == (at(7), "")


def test_the_span_of_a_deployment_has_its_attributes() -> None:
    """Attributes of OpenTelemetry's conventions where there are some; unknown ones are absent."""
    whole, *stages = spans_of(ended(committed_at=at(-5), actor="ann@example.org", healthy_at=at(7)))
    assert whole.attributes == {
        "towline.service": "web",
        "towline.service.id": "s",
        "towline.sequence": 3,
        "towline.actor": "ann@example.org",
        "k8s.cluster.name": "prod",
        "vcs.ref.head.revision": "a" * 40,
        "towline.committed_at": at(-5).isoformat(),
    }
    assert not any(stage.attributes for stage in stages)
    uncommitted = replace(ended().deployment, sha=None)
    whole, *_ = spans_of(EndedDeployment(uncommitted, "web", "prod", "r"))
    assert not {"vcs.ref.head.revision", "towline.committed_at"} & whole.attributes.keys()


def test_deployments_without_a_commit_of_a_repository_have_their_own_traces() -> None:
    for repository, sha in ((None, "a" * 40), ("r", None)):
        traces = {
            spans_of(EndedDeployment(replace(row.deployment, sha=sha), "web", "prod", repository))[
                0
            ].trace_id
            for row in (ended("a"), ended("b"))
        }
        assert len(traces) == 2 and max(traces) >= 2**64, "trace ids have 128 bits"


def test_services_of_one_commit_are_in_one_trace() -> None:
    a, b = spans_of(ended("a", healthy_at=at(1))), spans_of(ended("b", healthy_at=at(1)))
    assert {one.trace_id for one in a} == {one.trace_id for one in b}
    assert not {one.span_id for one in a} & {one.span_id for one in b}
    elsewhere = spans_of(ended("a", repository="other", healthy_at=at(1)))
    assert elsewhere[0].trace_id != a[0].trace_id


@given(st.fixed_dictionaries(dict.fromkeys(COLUMNS, moments)))
def test_whatever_was_noted_spans_are_sound(times: dict[str, Any]) -> None:
    """Also where clocks of two machines disagree."""
    spans = spans_of(ended(**times))
    whole, *stages = spans
    assert spans == spans_of(ended(**times))
    assert len({one.span_id for one in spans}) == len(spans)
    assert all(0 < one.span_id < 2**64 and 0 < one.trace_id < 2**128 for one in spans)
    assert all(one.parent_id == whole.span_id for one in stages) and whole.parent_id is None
    assert all(whole.start <= one.start <= one.end <= whole.end for one in stages)
