"""Stage of a commit on its path to a service, and the reason why it is not live."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from controlplane.clusters.model.cluster import SILENT_AFTER, Cluster
from controlplane.reports.model.dora import Deployment
from controlplane.reports.model.tracing import (
    ARRIVED,
    CommitStanding,
    StageTime,
    commit_path,
    stage_times,
)
from controlplane.services.model.ledger import LedgerStage
from controlplane.services.model.service import Phase, Service
from controlplane.services.model.verification import Quarantine
from core.identity import ClusterId, ServiceId
from core.spec.status import Problem

NOW = datetime(2026, 1, 2, tzinfo=UTC)
DESIRED = NOW - timedelta(minutes=9)
OFFERED, APPLIED, FAILED, HEALTHY, REPLACED = (
    DESIRED + timedelta(minutes=minutes) for minutes in (1, 2, 3, 4, 5)
)
SERVICE = Service(ServiceId("s"), ClusterId("c"), None, "shop", "shop", NOW, NOW).changed(
    digest="sha256:1", generation=2
)
CLUSTER = Cluster(ClusterId("c"), "eu-1", "eu-1", NOW, NOW, pinged_at=NOW)
DEPLOYMENT = Deployment("s", 2, "c", LedgerStage.RENDERED, DESIRED)
BAD = Quarantine("sha256:2", "too many errors", NOW)
ExpectedPath = tuple[CommitStanding, str]


def path_of(
    service: dict[str, Any], deployment: dict[str, Any] | None, cluster: Cluster | None = CLUSTER
) -> tuple[CommitStanding, str, datetime | None]:
    """Standing, reason and time of the path."""
    found = replace(DEPLOYMENT, **deployment) if deployment is not None else None
    path = commit_path(SERVICE.changed(**service), cluster, found, NOW)
    assert (path.cluster, path.deployment) == (cluster, found)
    return path.standing, path.reason, path.since


NOT_DESIRED: list[tuple[dict[str, Any], ExpectedPath]] = [
    ({"render_error": "no chart"}, (CommitStanding.RENDERING, "no chart")),
    ({"digest": None}, (CommitStanding.RENDERING, "not rendered yet")),
    (
        {"waiting": True, "dependencies": ("db", "bus")},
        (CommitStanding.HELD, "waiting until these services are healthy: db, bus"),
    ),
    (
        {"promoted": True},
        (
            CommitStanding.HELD,
            "the pipeline has not promoted this commit yet: a gate is still closed",
        ),
    ),
    (
        {"pinned_sha": "0123456789abcdef"},
        (CommitStanding.HELD, "the service is pinned at 0123456789ab after a rollback"),
    ),
    ({"quarantine": BAD, "quarantined": "sha256:2"}, (CommitStanding.HELD, str(BAD))),
    (
        {"quarantine": replace(BAD, lifted_by="ada"), "quarantined": "sha256:2"},
        (CommitStanding.UNCHANGED, "the commit changes no file that the service uses"),
    ),
    ({}, (CommitStanding.UNCHANGED, "the commit changes no file that the service uses")),
]


@pytest.mark.parametrize(("service", "expected"), NOT_DESIRED)
def test_a_commit_that_was_never_desired_has_a_reason(
    service: dict[str, Any], expected: ExpectedPath
) -> None:
    assert path_of(service, None) == (*expected, SERVICE.updated_at)


def test_the_first_of_several_reasons_on_the_path_counts() -> None:
    """Each list of fields lacks the first of the one before."""
    fields: dict[str, Any] = {
        "render_error": "no chart",
        "quarantine": BAD,
        "waiting": True,
        "promoted": True,
        "pinned_sha": "0123456789abcdef",
        "digest": None,
    }
    reasons = []
    for first in tuple(fields):
        reasons.append(path_of(fields, None)[1])
        del fields[first]
    words = ("chart", "known to be bad", "until", "pipeline", "pinned", "rendered")
    assert [word in text for word, text in zip(words, reasons, strict=True)] == [True] * len(words)


DESIRED_STATES: list[tuple[dict[str, Any], dict[str, Any], ExpectedPath, datetime]] = [
    ({}, {}, (CommitStanding.OFFERING, "not sent to the agent yet"), DESIRED),
    ({}, {"offered_at": OFFERED}, (CommitStanding.APPLYING, ""), OFFERED),
    (
        {"message": "wave 2 of 3"},
        {"offered_at": OFFERED},
        (CommitStanding.APPLYING, "wave 2 of 3"),
        OFFERED,
    ),
    (
        {"problems": (Problem("quota", source="apply"),), "message": "wave 2 of 3"},
        {"offered_at": OFFERED},
        (CommitStanding.APPLYING, "quota"),
        OFFERED,
    ),
    (
        {"phase": Phase.AWAITING, "problems": (Problem("confirm it", source="deletion"),)},
        {"offered_at": OFFERED},
        (CommitStanding.CONFIRMING, "confirm it"),
        OFFERED,
    ),
    ({"phase": Phase.AWAITING}, {}, (CommitStanding.CONFIRMING, ""), DESIRED),
    (
        {"paused": True},
        {"offered_at": OFFERED},
        (CommitStanding.HELD, "the service is paused; resume it to apply the change"),
        DESIRED,
    ),
    (
        {},
        {"offered_at": OFFERED, "applied_at": APPLIED},
        (CommitStanding.BECOMING_HEALTHY, "objects are not healthy yet"),
        APPLIED,
    ),
    (
        {"message": "1 of 2 Pods"},
        {"applied_at": APPLIED},
        (CommitStanding.BECOMING_HEALTHY, "1 of 2 Pods"),
        APPLIED,
    ),
    ({}, {"applied_at": APPLIED, "healthy_at": HEALTHY}, (CommitStanding.LIVE, ""), HEALTHY),
    (
        {"problems": tuple(Problem(text, source="apply") for text in "abcd")},
        {"offered_at": OFFERED, "failed_at": FAILED},
        (CommitStanding.FAILED, "a; b; c"),
        FAILED,
    ),
    ({"message": "crash"}, {"failed_at": FAILED}, (CommitStanding.FAILED, "crash"), FAILED),
    (
        {},
        {"applied_at": APPLIED, "healthy_at": APPLIED, "failed_at": FAILED},
        (CommitStanding.FAILED, ""),
        FAILED,
    ),
    (
        {},
        {"healthy_at": APPLIED, "failed_at": FAILED, "restored_at": HEALTHY},
        (CommitStanding.LIVE, ""),
        APPLIED,
    ),
    (
        {"generation": 3},
        {"healthy_at": HEALTHY, "replaced_at": REPLACED},
        (CommitStanding.SUPERSEDED, "superseded by a later desired state"),
        REPLACED,
    ),
    (
        {"generation": 3},
        {"failed_at": FAILED},
        (CommitStanding.SUPERSEDED, "superseded by a later desired state"),
        DESIRED,
    ),
]


@pytest.mark.parametrize(("service", "deployment", "expected", "since"), DESIRED_STATES)
def test_a_desired_commit_is_at_its_last_stage(
    service: dict[str, Any], deployment: dict[str, Any], expected: ExpectedPath, since: datetime
) -> None:
    assert path_of(service, deployment) == (*expected, since)


def test_a_commit_passes_the_stages_in_order() -> None:
    times = {"offered_at": OFFERED, "applied_at": APPLIED, "healthy_at": HEALTHY}
    reached: dict[str, Any] = {}
    standings = [path_of({}, reached)[0]]
    for name, time in times.items():
        reached[name] = time
        standings.append(path_of({}, reached)[0])
    assert standings == [
        CommitStanding.OFFERING,
        CommitStanding.APPLYING,
        CommitStanding.BECOMING_HEALTHY,
        CommitStanding.LIVE,
    ]
    assert [one in ARRIVED for one in standings] == [False, False, False, True]


def test_every_standing_is_tried_here() -> None:
    tried = {expected[0] for _, expected in NOT_DESIRED} | {
        expected[0] for *_, expected, _ in DESIRED_STATES
    }
    assert set(CommitStanding) - tried == set(), "add a case for these"


@pytest.mark.parametrize("deployment", [{}, {"offered_at": OFFERED}])
def test_an_offline_agent_is_the_reason_before_the_commit_is_applied(
    deployment: dict[str, Any],
) -> None:
    service = {"message": "wave 2 of 3"}
    never = "the agent of this cluster has never connected"
    assert path_of(service, deployment, None)[1] == never
    assert path_of(service, deployment, replace(CLUSTER, pinged_at=None))[1] == never
    last = NOW - SILENT_AFTER
    assert "offline" not in path_of(service, deployment, replace(CLUSTER, pinged_at=last))[1]
    silent = replace(CLUSTER, pinged_at=last - timedelta(seconds=1))
    assert path_of(service, deployment, silent)[1] == (
        "the agent of eu-1 is offline, last seen 2026-01-01T23:54:59Z"
    )


@pytest.mark.parametrize(
    "deployment", [None, {"applied_at": APPLIED}, {"failed_at": FAILED}, {"healthy_at": HEALTHY}]
)
def test_an_offline_agent_changes_no_other_reason(deployment: dict[str, Any] | None) -> None:
    assert path_of({}, deployment, None) == path_of({}, deployment, CLUSTER)


def test_stages_take_the_time_between_their_ends_in_order() -> None:
    """Over the deployments that completed both; a clock that went back counts as 0 s."""
    start = NOW - timedelta(hours=1)

    def after(seconds: float) -> datetime:
        return start + timedelta(seconds=seconds)

    whole = replace(
        DEPLOYMENT,
        committed_at=start,
        fetched_at=after(1),
        desired_at=after(3),
        offered_at=after(6),
        applied_at=after(10),
        healthy_at=after(15),
    )
    assert stage_times([whole]) == [
        StageTime("fetched", 1, 1, 1),
        StageTime("desired", 1, 2, 2),
        StageTime("offered", 1, 3, 3),
        StageTime("applied", 1, 4, 4),
        StageTime("healthy", 1, 5, 5),
    ]
    late = [replace(whole, offered_at=after(3 + n), applied_at=None) for n in range(1, 101)]
    early = replace(whole, committed_at=after(2))
    found = {time.stage: time for time in stage_times([whole, early, *late])}
    assert found["offered"] == StageTime("offered", 102, 49, 99)
    assert (found["applied"].count, found["fetched"].count) == (2, 102)
    assert stage_times([early])[0] == StageTime("fetched", 1, 0, 0)


def test_without_data_no_stage_has_a_time() -> None:
    assert stage_times([]) == []
    assert stage_times([DEPLOYMENT]) == []
