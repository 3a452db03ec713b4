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


def test_an_end_that_no_clock_shows_is_the_moment_of_the_change() -> None:
    """What closes at 2:30 of that night closes when it becomes 3:00."""
    calendar = Calendar(BERLIN, (OpeningHours((6,), time(1), time(2, 30)),))
    change, second = at("2026-03-29T01:00"), timedelta(seconds=1)
    assert calendar.next_change(at("2026-03-29T00:30")) == change
    assert calendar.closed_reason(change - second) is None
    assert calendar.closed_reason(change) is not None


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


JANUARY, MARCH = at("2026-01-01T00:00"), at("2026-03-01T00:00")
NAIVE = datetime(2026, 1, 2)


@pytest.mark.parametrize(
    ("calendar", "field"),
    [
        (Calendar("Mars/Olympus"), "zone"),
        (Calendar("../../etc/passwd"), "zone"),
        (Calendar(hours=(OpeningHours((7,)),)), "hours"),
        (Calendar(hours=(OpeningHours((0, -1)),)), "hours"),
        (Calendar(hours=(OpeningHours((0, 7)),)), "hours"),
        (Calendar(hours=(OpeningHours(()),)), "hours"),
        (Calendar(hours=(OpeningHours((0,)),) * 51), "hours"),
        (Calendar(holidays=(date(2026, 1, 1),) * 1_001), "holidays"),
        (Calendar(freezes=(FreezePeriod(NAIVE, MARCH),)), "freezes"),
        (Calendar(freezes=(FreezePeriod(JANUARY, datetime(2026, 2, 1)),)), "freezes"),
        (Calendar(freezes=(FreezePeriod(MARCH, JANUARY),)), "freezes"),
        (Calendar(freezes=(FreezePeriod(JANUARY, JANUARY),)), "freezes"),
        (Calendar(freezes=(FreezePeriod(JANUARY, MARCH, "x" * 100_000),)), "freezes.reason"),
    ],
)
def test_a_calendar_that_cannot_be_meant_is_refused_by_its_field(
    calendar: Calendar, field: str
) -> None:
    with pytest.raises(Invalid) as error:
        calendar.check("gates[0]")
    assert error.value.field == f"gates[0].{field}"


def test_every_day_of_a_week_can_be_named() -> None:
    Calendar(
        BERLIN, (OpeningHours(tuple(range(7))),), freezes=(FreezePeriod(JANUARY, MARCH),)
    ).check("c")


def test_a_freeze_holds_from_its_begin_until_its_end() -> None:
    calendar = Calendar(freezes=(FreezePeriod(JANUARY, MARCH),))
    second = timedelta(seconds=1)
    assert calendar.closed_reason(JANUARY - second) is None
    assert calendar.closed_reason(JANUARY) == "frozen until 2026-03-01 00:00 UTC: no reason given"
    assert calendar.closed_reason(MARCH - second) is not None
    assert calendar.closed_reason(MARCH) is None


def test_a_freeze_is_told_before_a_holiday_and_a_holiday_before_the_hours() -> None:
    freeze = FreezePeriod(at("2026-01-10T12:00"), at("2026-01-10T13:00"), "sale")
    calendar = Calendar("UTC", OFFICE.hours, (date(2026, 1, 10),), (freeze,))
    saturday = at("2026-01-10T12:30")
    assert "sale" in (calendar.closed_reason(saturday) or "")
    assert calendar.closed_reason(saturday + timedelta(hours=1)) == "2026-01-10 is a holiday"
    assert calendar.closed_reason(saturday + timedelta(days=1)) == "outside the hours of UTC"


def test_a_change_at_this_moment_is_not_the_next_one() -> None:
    calendar = Calendar(freezes=(FreezePeriod(JANUARY, MARCH),))
    assert calendar.next_change(JANUARY) == MARCH
    assert calendar.next_change(MARCH) is None


def test_hours_that_meet_are_no_change() -> None:
    """Open all day on two days is one opening."""
    hours = (OpeningHours((0,)), OpeningHours((1,)))
    calendar = Calendar("UTC", hours)
    assert calendar.next_change(at("2026-01-05T12:00")) == at("2026-01-07T00:00")


def test_hours_that_begin_in_a_left_out_hour_of_half_an_hour() -> None:
    """On Lord Howe Island clocks go forward by 30 minutes, on 2026-10-04 at 2:00."""
    calendar = Calendar("Australia/Lord_Howe", (OpeningHours((6,), time(2, 15), time(5)),))
    change = at("2026-10-03T15:30")
    assert calendar.closed_reason(change - timedelta(seconds=1)) is not None
    assert calendar.closed_reason(change) is None
    assert calendar.next_change(change - timedelta(hours=5)) == change


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
