"""Triggers in the engine: schedules, findings, and the tag that counts."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from semantic_version import Version

from controlplane.pipelines.engine.effects import WakeAt, WriteFinding
from controlplane.pipelines.engine.events import (
    FindingFailed,
    FindingWritten,
    Frozen,
    Paused,
    Resumed,
    StageObserved,
    Started,
    TriggerFound,
)
from controlplane.pipelines.model.git_writes import FileChange, FileKind, GitWrite
from controlplane.pipelines.model.pipeline import Pipeline, validate
from controlplane.pipelines.model.state import FoundStatus, GitChangeState, GitWriteStatus, Health
from controlplane.pipelines.model.triggers import Trigger, TriggerFinding, TriggerRule
from controlplane.pipelines.model.versions import (
    check_pattern,
    highest_match,
    highest_version,
    matching_tags,
    newest_tag,
)
from controlplane.pipelines.triggers.kinds import ChartRule, ImageRule, ScheduleRule, TagRule
from controlplane.pipelines.triggers.kinds.image import ImageTagPolicy
from core.errors import Invalid
from core.identity import ServiceId
from core.spec.images import OciRepository, parse_image
from tests.fakes.pipelines import START, Line, make_pipeline

WRITE = GitWrite((FileChange(FileKind.IMAGE, "dev/d.yaml", image="registry.test/shop"),))
IMAGE = ImageRule("registry.test/shop")


def with_trigger(
    rule: TriggerRule, write: GitWrite | None = None, *, on_commit: bool = True
) -> Pipeline:
    """dev → prod, with one trigger."""
    trigger = Trigger("t", "trigger", rule, write)
    plain = make_pipeline({"dev prod": []})
    return validate(replace(plain, triggers=(trigger,), on_commit=on_commit))


def seen(line: Line, content: str) -> None:
    """The first stage holds something, and is well."""
    stage = line.pipeline.first.id
    revisions = line.revisions(stage, content, content)
    line.send(StageObserved(stage, revisions, Health.HEALTHY, "ann"))


def written(line: Line) -> list[str]:
    return [one.finding.value for one in line.effects if isinstance(one, WriteFinding)]


def releases(line: Line) -> int:
    return line.state.number


def test_a_schedule_begins_one_release_for_all_times_that_passed() -> None:
    line = Line(with_trigger(ScheduleRule("0 * * * *"), on_commit=False))
    seen(line, "c1")
    assert releases(line) == 0
    line.pass_time(3 * 3600 + 60)
    assert (releases(line), line.state.history[-1].text) == (1, "started by trigger")
    line.pass_time(3600)
    assert releases(line) == 1, "nothing was new"
    seen(line, "c2")
    line.pass_time(3600)
    assert releases(line) == 2


def test_a_schedule_waits_for_the_end_of_a_pause_and_says_when_it_wakes() -> None:
    line = Line(with_trigger(ScheduleRule("0 * * * *"), on_commit=False))
    seen(line, "c1")
    line.send(Paused("eve"))
    line.pass_time(7200)
    assert releases(line) == 0
    effects = line.send(Resumed("eve"))
    assert releases(line) == 1
    (wake,) = [one for one in effects if isinstance(one, WakeAt)]
    assert wake.at == START + timedelta(hours=3)


def test_the_release_before_goes_on_while_what_is_newer_waits_to_be_started() -> None:
    line = Line(with_trigger(TagRule(), on_commit=False))
    seen(line, "c1")
    line.send(Started("eve", "go"))
    seen(line, "c1")
    release = line.stage("dev").release
    seen(line, "c2")
    assert release is not None and line.stage("dev").release == release
    line.render("prod", release)
    assert line.promotions() == [("prod", release)]
    line.send(Started("eve"))
    assert releases(line) == 2
    line.send(Started("eve"))
    assert releases(line) == 2 and "the first stage has not changed" in line.notes()[0]


@pytest.mark.parametrize(
    ("zone", "expected"),
    [("UTC", "2026-03-29T02:30:00+00:00"), ("Europe/Berlin", "2026-03-29T01:00:00+00:00")],
)
def test_an_hour_that_clocks_leave_out_is_kept_at_the_change(zone: str, expected: str) -> None:
    rule = ScheduleRule("30 2 29 3 *", zone)
    assert rule.next_after(datetime(2026, 3, 1, tzinfo=UTC)).isoformat() == expected


def test_a_finding_is_committed_once_and_retried_only_after_failure() -> None:
    line = Line(with_trigger(IMAGE, WRITE))
    for _ in range(3):
        line.send(TriggerFound("t", TriggerFinding("1.0")))
        line.pass_time(60)
    assert written(line) == ["1.0"]
    line.send(FindingFailed("t", TriggerFinding("1.0"), "protected branch"))
    assert line.state.triggers["t"].reason == "protected branch"
    line.pass_time(60)
    line.send(TriggerFound("t", TriggerFinding("1.0")))
    assert written(line) == ["1.0", "1.0"]
    change = GitWriteStatus(GitChangeState.LANDED, "r", "main", "a" * 40)
    line.send(FindingWritten("t", TriggerFinding("1.0"), change))
    state = line.state.triggers["t"]
    assert (state.status, state.change) == (FoundStatus.DONE, change)
    line.send(TriggerFound("t", TriggerFinding("1.0")))
    assert line.notes() and written(line) == ["1.0", "1.0"]


def test_the_history_tells_what_was_found_and_why_it_was_not_written() -> None:
    line = Line(with_trigger(IMAGE, WRITE))
    found = TriggerFinding("latest", "sha256:abc")
    line.send(TriggerFound("t", found))
    line.send(FindingFailed("t", found, "protected branch"))
    line.send(TriggerFound("t", found))
    line.pass_time(1)
    line.send(TriggerFound("t", found))
    line.send(FindingWritten("t", found, text="services follow latest"))
    assert [entry.text for entry in line.state.history if entry.place == "t"] == [
        "found latest@sha256:abc",
        "could not be written: protected branch",
        "services follow latest",
    ]
    line.send(TriggerFound("t", TriggerFinding("1.0")))
    assert line.state.history[-1].text == "found 1.0"


def test_a_newer_version_takes_the_place_of_one_that_is_being_written() -> None:
    line = Line(with_trigger(IMAGE, WRITE))
    line.send(TriggerFound("t", TriggerFinding("1.0")))
    line.send(TriggerFound("t", TriggerFinding("1.1")))
    line.send(FindingWritten("t", TriggerFinding("1.0")))
    assert line.notes() == ["another version has been found since"]
    assert line.state.triggers["t"].status is FoundStatus.WRITING
    line.send(FindingWritten("t", TriggerFinding("1.1"), text="done"))
    assert line.state.triggers["t"].status is FoundStatus.DONE


def test_a_pause_and_a_freeze_hold_what_was_found() -> None:
    line = Line(with_trigger(IMAGE, WRITE))
    line.send(Paused("eve", "incident"))
    line.send(TriggerFound("t", TriggerFinding("1.0")))
    assert not written(line)
    assert "incident" in line.state.triggers["t"].reason
    line.send(Frozen({ServiceId("dev-0"): "frozen by ann"}))
    line.send(Resumed("eve"))
    assert not written(line) and line.state.triggers["t"].reason == "frozen by ann"
    line.send(Frozen({}))
    assert written(line) == ["1.0"]


@settings(max_examples=40)
@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from("wfxt")), max_size=30))
def test_no_version_is_written_twice_without_a_failure_between(story: list) -> None:
    """Any order of looks, answers, failures and time; at any point a restart changes nothing."""
    line, failed = Line(with_trigger(IMAGE, WRITE)), 0
    for value, what in story:
        before = line.state.triggers.get("t")
        if what == "x":
            line.send(FindingFailed("t", TriggerFinding(value), "no"))
        elif what == "w":
            line.send(FindingWritten("t", TriggerFinding(value), text="done"))
        elif what == "t":
            line.pass_time(30)
        else:
            line.pass_time(1)
            line.send(TriggerFound("t", TriggerFinding(value)))
        after = line.state.triggers.get("t")
        failed += before != after and after is not None and after.status is FoundStatus.FAILED
    changes = [one.text for one in line.state.history if one.text.startswith("found ")]
    assert len(written(line)) <= len(changes) + failed


@pytest.mark.parametrize(
    ("rule", "write", "field"),
    [
        (ScheduleRule("61 * * * *"), None, "triggers[0].cron"),
        (ScheduleRule("0 0 30 2 *"), None, "triggers[0].cron"),
        (ScheduleRule("* * * * *", "Mars/Base"), None, "triggers[0].zone"),
        (ScheduleRule("* * * * *"), WRITE, "triggers[0].git"),
        (IMAGE, None, "triggers[0].git"),
        (ImageRule("shop"), WRITE, "triggers[0].image"),
        (ImageRule("registry.test/shop:1"), WRITE, "triggers[0].image"),
        (ImageRule("registry.test/../x"), WRITE, "triggers[0].image"),
        (replace(IMAGE, range=">>1"), WRITE, "triggers[0].range"),
        (replace(IMAGE, policy=ImageTagPolicy.REGEX), WRITE, "triggers[0].pattern"),
        (replace(IMAGE, pattern="(?!a)b"), WRITE, "triggers[0].pattern"),
        (replace(IMAGE, pattern="("), WRITE, "triggers[0].pattern"),
        (replace(IMAGE, tag="a b"), WRITE, "triggers[0].tag"),
        (ChartRule("shop"), WRITE, "triggers[0].chart"),
        (TagRule("one"), None, "triggers[0].range"),
    ],
)
def test_invalid_triggers_are_refused_by_field(
    rule: TriggerRule, write: GitWrite | None, field: str
) -> None:
    with pytest.raises(Invalid) as error:
        with_trigger(rule, write, on_commit=False)
    assert error.value.field == field


@pytest.mark.parametrize(
    "pattern",
    ["(?P<n>a*)(?P=n)", r"(a)\1", "(?<=a)x", "a{1001}", ".{600}", "\ud800", "a" * 513],
)
def test_a_pattern_that_re2_does_not_take_is_refused(pattern: str) -> None:
    with pytest.raises(Invalid):
        check_pattern(pattern, "pattern", needed=True)


@pytest.mark.parametrize(
    "pattern",
    [
        r"main-(\d+)-[a-z]*",
        r"v(\d+)\.(\d+)\.(\d+)(-rc\.\d+)?",
        r"^(main|release)-(?P<at>\d{8})-[0-9a-f]{7,40}$",
        ".*-main-.*",
        "[]a-]+_[^_]*",
    ],
)
def test_usual_patterns_are_taken(pattern: str) -> None:
    check_pattern(pattern, "pattern", needed=True)


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    "pattern", ["a*a*a*a*b", "(a+)+b", "a?" * 100 + "a" * 128, r"(\d+|a)a*a*a*x", "(a|a)*x"]
)
def test_no_pattern_is_tried_for_ever(pattern: str) -> None:
    """A tag has 128 characters: Python's own engine would be at it for minutes or years."""
    assert matching_tags(["a" * 127 + "c"], pattern) == []


def test_a_schedule_needs_commits_that_are_no_releases() -> None:
    with pytest.raises(Invalid, match="requires onCommit: false"):
        with_trigger(ScheduleRule("0 * * * *"))


@settings(max_examples=40)
@given(st.lists(st.tuples(*[st.integers(0, 12)] * 3), min_size=1, max_size=20))
def test_the_highest_version_counts_as_versions_do(versions: list[tuple[int, int, int]]) -> None:
    tags = [".".join(map(str, one)) for one in versions]
    assert highest_version([*tags, "latest", "v", ""], "*") == str(max(map(Version, tags)))


@pytest.mark.parametrize(
    ("tags", "wanted", "expected"),
    [
        (["1.2.3", "v1.10.0", "2.0.0"], "^1", "v1.10.0"),
        (["1.2.3-rc.1", "1.2.2"], "^1", "1.2.2"),
        (["1.2.3_abc"], "*", "1.2.3_abc"),
        (["latest"], "*", None),
        ([], "*", None),
    ],
)
def test_ranges_choose_among_tags(tags: list[str], wanted: str, expected: str | None) -> None:
    assert highest_version(tags, wanted) == expected


@pytest.mark.parametrize(
    ("tags", "pattern", "expected"),
    [
        (["main-9-abc", "main-10-aaa", "dev-99-x"], r"main-(\d+)-[a-z]*", "main-10-aaa"),
        (["2026-01-09", "2026-01-10"], r"[\d-]*", "2026-01-10"),
        (["x"], "y", None),
    ],
)
def test_patterns_choose_by_what_their_group_holds(
    tags: list[str], pattern: str, expected: str | None
) -> None:
    assert highest_match(tags, pattern) == expected


def test_the_one_made_last_is_the_newest() -> None:
    assert newest_tag({"a": START, "b": START + timedelta(1), "c": START}) == "b"
    assert newest_tag({}) is None


@pytest.mark.parametrize(
    ("image", "place"),
    [
        ("ghcr.io/team/shop", ("ghcr.io", "team/shop")),
        ("localhost:5000/a", ("localhost:5000", "a")),
        ("docker.io/library/nginx", ("docker.io", "library/nginx")),
    ],
)
def test_images_are_named_with_their_registry(image: str, place: tuple[str, str]) -> None:
    assert parse_image(image) == OciRepository(*place)


def test_a_failed_write_is_tried_again_under_another_name() -> None:
    """A job with the same name was carried out, and would be skipped."""
    line = Line(with_trigger(IMAGE, WRITE))
    found = TriggerFinding("1.0")
    for _ in range(3):
        line.send(TriggerFound("t", found))
        line.send(FindingFailed("t", found, "protected branch"))
        line.pass_time(60)
    keys = [one.key for one in line.effects if isinstance(one, WriteFinding)]
    assert keys == ["found/t/1.0/1", "found/t/1.0/2", "found/t/1.0/3"]
    line.send(TriggerFound("t", TriggerFinding("1.1")))
    assert line.state.triggers["t"].attempt == 1


def test_a_trigger_that_the_pipeline_does_not_have_finds_nothing() -> None:
    line = Line(with_trigger(IMAGE, WRITE))
    line.send(TriggerFound("other", TriggerFinding("1.0")))
    assert line.notes() == ["trigger other does not exist"]
    assert line.state.triggers == {}


def test_nothing_is_started_while_paused_or_after_a_return_to_the_release() -> None:
    line = Line(with_trigger(ScheduleRule("0 0 1 1 *"), None, on_commit=False))
    seen(line, "c1")
    line.send(Paused("eve"))
    line.send(Started("bob"))
    assert line.notes() == ["paused by eve"]
    line.send(Resumed("eve"))
    line.send(Started("bob", "now"))
    assert releases(line) == 1
    seen(line, "c2")
    seen(line, "c1")
    line.send(Started("bob"))
    assert line.notes() == [
        "nothing to start: the first stage has not changed since the newest release"
    ]
