"""Recordings of churn: what is kept of a cluster, and which files are taken for one."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from core.errors import Invalid
from core.spec.health import HealthState
from core.spec.objects import GroupVersionKind
from syncagent.domain.events import ObjectGone, ObjectSeen, WatchListed
from syncagent.domain.objects import ref_of
from tests.fakes.clock import FakeClock
from towline.simulate.churn import ChurnRecording, RecordedChange, lines_of, read
from towline.simulate.recorder import ChurnRecorder

POD = GroupVersionKind("", "v1", "Pod")
CHANGES = st.builds(
    RecordedChange,
    at=st.floats(0, 60),
    object=st.integers(0, 10**9),
    kind=st.sampled_from(["v1/Pod", "apps/v1/Deployment", "batch.example.org/v2beta1/Job"]),
    health=st.sampled_from(HealthState),
    gone=st.booleans(),
)


def pod(name: str, phase: str, **more: Any) -> dict[str, Any]:
    """A pod as the API server tells of it."""
    metadata = {"namespace": "secret-project", "name": name, "uid": f"uid-{name}", **more}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "status": {"phase": phase}}


def recorder(*there: dict[str, Any]) -> tuple[ChurnRecorder, FakeClock]:
    """One that has begun, with these objects there."""
    clock = FakeClock()
    one = ChurnRecorder(clock)
    for live in there:
        one.take(ObjectSeen(POD, live))
    one.take(WatchListed(POD, "", frozenset(ref_of(live).key for live in there), 1))
    one.begin()
    return one, clock


def written(recording: ChurnRecording, path: Path) -> Path:
    path.write_text("\n".join(lines_of(recording)))
    return path


async def test_only_changes_that_an_agent_would_report_are_recorded() -> None:
    """Not what was there at the beginning, nor another version of an object that is as it was."""
    one, clock = recorder(pod("a", "Running"))
    await clock.advance(2.0)
    one.take(ObjectSeen(POD, pod("a", "Running", resourceVersion="9")))
    one.take(ObjectSeen(POD, pod("a", "Failed")))
    await clock.advance(1.5)
    one.take(ObjectGone(POD, pod("a", "Failed")))
    one.take(ObjectSeen(POD, pod("b", "Pending")))
    recording = one.recording()
    changes = [(c.at, c.object, c.health, c.gone) for c in recording.changes]
    assert changes == [
        (2.0, 0, HealthState.FAILED, False),
        (3.5, 0, HealthState.FAILED, True),
        (3.5, 1, HealthState.PROGRESSING, False),
    ]
    assert (recording.seconds, recording.objects) == (3.5, 1)


async def test_objects_missing_from_a_new_list_are_recorded_as_gone() -> None:
    """After a new list, an object that is not in it."""
    one, clock = recorder(pod("a", "Running"), pod("b", "Running"))
    await clock.advance(1.0)
    one.take(WatchListed(POD, "", frozenset({ref_of(pod("b", "Running")).key}), 7))
    (change,) = one.recording().changes
    assert (change.object, change.gone) == (0, True)


async def test_no_name_of_the_cluster_is_in_a_recording(tmp_path: Path) -> None:
    one, clock = recorder()
    await clock.advance(1.0)
    one.take(ObjectSeen(POD, pod("payments-7f9", "Failed", labels={"team": "gold"})))
    text = written(one.recording(), tmp_path / "churn").read_text()
    assert [word for word in ("payments", "secret-project", "gold", "uid-") if word in text] == []
    assert json.loads(text.splitlines()[1])["kind"] == "v1/Pod"


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(CHANGES, min_size=1, max_size=20))
def test_a_churn_recording_round_trips(tmp_path: Path, changes: list[RecordedChange]) -> None:
    """In the order of times."""
    recording = ChurnRecording(60.0, 3, tuple(changes))
    found = read(written(recording, tmp_path / "churn"))
    assert found == ChurnRecording(60.0, 3, tuple(sorted(changes, key=lambda one: one.at)))


HEAD = '{"recording":"churn/1","seconds":10,"objects":2}'
CHANGE = '{"at":1.5,"object":0,"kind":"v1/Pod"}'


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "line 1: line: "),
        ("{}", "line 1: seconds: Field required"),
        (HEAD.replace("churn/1", "churn/2"), "line 1: recording"),
        (HEAD, "has 0 changes"),
        (f"{HEAD}\n{CHANGE}\nnot JSON", "line 3: line: Invalid JSON"),
        (f"{HEAD}\n{CHANGE.replace('1.5', '-1')}", "line 2: at"),
        (f"{HEAD}\n{CHANGE.replace('1.5', '11')}", "line 2: after the end"),
        (f"{HEAD}\n{CHANGE.replace('v1/Pod', '../Pod')}", "line 2: kind"),
        (f'{HEAD}\n{CHANGE[:-1]},"health":"FINE"}}', "line 2: health: .*one of HEALTHY"),
    ],
)
def test_an_invalid_recording_is_refused_by_line(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "churn.jsonl"
    path.write_text(text)
    with pytest.raises(Invalid, match=words):
        read(path)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(Invalid, match=r"cannot read .*missing\.jsonl"):
        read(tmp_path / "missing.jsonl")


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary(max_size=200))
def test_any_bytes_are_a_recording_or_invalid(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "churn"
    path.write_bytes(data)
    with pytest.raises(Invalid):
        read(path)
