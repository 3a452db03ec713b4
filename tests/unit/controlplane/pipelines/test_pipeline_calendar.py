"""Calendars of gates: hours, holidays, freezes, and the two odd nights of the year."""

from datetime import UTC, date, datetime, time, timedelta

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from controlplane.pipelines.model.calendar import Calendar, FreezePeriod, OpeningHours
from core.errors import Invalid

BERLIN = "Europe/Berlin"
WEEK = (0, 1, 2, 3, 4)
OFFICE = Calendar(BERLIN, (OpeningHours(WEEK, time(9), time(17)),))


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


@pytest.mark.parametrize(
    ("moment", "is_open"),
    [
        ("2026-01-05T08:00", True),  # 9:00 in winter
        ("2026-01-05T07:59", False),
        ("2026-01-05T16:00", False),
        ("2026-07-06T07:00", True),  # 9:00 in summer
        ("2026-07-06T15:00", False),
        ("2026-01-10T12:00", False),  # a Saturday
    ],
)
def test_hours_are_those_of_clocks_on_the_wall(moment: str, is_open: bool) -> None:
    assert (OFFICE.closed_reason(at(moment)) is None) == is_open


def test_a_calendar_knows_when_it_opens_next() -> None:
    """From Friday evening on, the next change is Monday morning."""
    assert OFFICE.next_change(at("2026-01-09T18:00")) == at("2026-01-12T08:00")
    assert OFFICE.next_change(at("2026-01-12T08:00")) == at("2026-01-12T16:00")


def test_an_hour_that_no_clock_shows_is_the_moment_of_the_change() -> None:
    """On 2026-03-29 clocks go from 2:00 to 3:00: what opens at 2:30 opens at 3:00."""
    calendar = Calendar(BERLIN, (OpeningHours((6,), time(2, 30), time(5)),))
    assert calendar.next_change(at("2026-03-29T00:00")) == at("2026-03-29T01:00")
    assert calendar.closed_reason(at("2026-03-29T01:00")) is None
    assert calendar.closed_reason(at("2026-03-29T02:59")) is None
    assert calendar.closed_reason(at("2026-03-29T03:00")) is not None


def test_an_hour_that_is_shown_twice_is_open_twice() -> None:
    """On 2026-10-25 it is 2:30 twice; from 2:00 to 2:45 lasts an hour and three quarters."""
    calendar = Calendar(BERLIN, (OpeningHours((6,), time(2), time(2, 45)),))
    assert calendar.next_change(at("2026-10-24T22:30")) == at("2026-10-25T00:00")
    assert calendar.closed_reason(at("2026-10-25T01:40")) is None
    assert calendar.closed_reason(at("2026-10-25T01:45")) is not None


def test_hours_over_midnight_belong_to_the_day_they_begin_on() -> None:
    calendar = Calendar("UTC", (OpeningHours((4,), time(22), time(2)),))
    assert calendar.closed_reason(at("2026-01-09T23:00")) is None
    assert calendar.closed_reason(at("2026-01-10T01:59")) is None
    assert calendar.closed_reason(at("2026-01-10T02:00")) is not None


def test_holidays_are_days_of_the_zone() -> None:
    """New Year's Day in Auckland begins while London still has the old year."""
    calendar = Calendar("Pacific/Auckland", holidays=(date(2026, 1, 1),))
    assert "holiday" in (calendar.closed_reason(at("2025-12-31T11:00")) or "")
    assert calendar.closed_reason(at("2025-12-31T10:59")) is None
    assert calendar.next_change(at("2025-12-31T12:00")) == at("2026-01-01T11:00")


def test_a_freeze_says_why_and_until_when() -> None:
    freeze = FreezePeriod(at("2026-12-20T00:00"), at("2027-01-02T00:00"), "Christmas")
    calendar = Calendar(freezes=(freeze,))
    reason = calendar.closed_reason(at("2026-12-24T12:00")) or ""
    assert "2027-01-02 00:00" in reason and "Christmas" in reason
    assert calendar.next_change(at("2026-12-24T12:00")) == freeze.end


def test_a_window_that_never_opens_says_so() -> None:
    calendar = Calendar("UTC", (OpeningHours((0,), time(1), time(2)),))
    frozen = Calendar(
        "UTC",
        calendar.hours,
        freezes=(FreezePeriod(at("2026-01-01T00:00"), at("2036-01-01T00:00")),),
    )
    assert frozen.next_change(at("2026-02-01T00:00")) == at("2036-01-01T00:00") or (
        frozen.next_change(at("2026-02-01T00:00")) is None
    )
    assert Calendar().next_change(at("2026-02-01T00:00")) is None


@pytest.mark.parametrize(
    "calendar",
    [
        Calendar("Mars/Olympus"),
        Calendar("../../etc/passwd"),
        Calendar(hours=(OpeningHours((7,)),)),
        Calendar(hours=(OpeningHours(()),)),
        Calendar(freezes=(FreezePeriod(datetime(2026, 1, 2), datetime(2026, 1, 3)),)),
        Calendar(freezes=(FreezePeriod(at("2026-01-02T00:00"), at("2026-01-01T00:00")),)),
    ],
)
def test_a_calendar_that_cannot_be_meant_is_refused(calendar: Calendar) -> None:
    with pytest.raises(Invalid):
        calendar.check("gates[0]")


@given(
    minutes=st.integers(0, 366 * 24 * 60),
    zone=st.sampled_from((BERLIN, "America/New_York", "Australia/Lord_Howe", "UTC")),
    begin=st.times(),
    end=st.times(),
)
@example(minutes=123_780, zone=BERLIN, begin=time(0), end=time(0))
def test_nothing_changes_before_the_next_change(
    minutes: int, zone: str, begin: time, end: time
) -> None:
    """For any calendar, the returned time is a change, and none lies halfway to it."""
    begin, end = (one.replace(second=0, microsecond=0) for one in (begin, end))
    calendar = Calendar(zone, (OpeningHours(WEEK, begin, end),), (date(2026, 5, 1),))
    now = at("2026-01-01T00:00") + timedelta(minutes=minutes)
    change = calendar.next_change(now)
    if change is None:
        return
    before = calendar.closed_reason(now) is None
    assert (calendar.closed_reason(change) is None) != before
    assert (calendar.closed_reason(now + (change - now) / 2) is None) == before
    assert (calendar.closed_reason(change - timedelta(seconds=1)) is None) == before
