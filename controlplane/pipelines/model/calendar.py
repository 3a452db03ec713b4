"""Calendars of gates: weekday hours in a time zone, holidays and freezes.

Hours are local wall-clock times. When summer time begins, an hour that does not exist counts as the
moment of the change. When it ends, an hour that occurs twice is open both times.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import Annotated
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from controlplane.platform.plugin_settings import MAX_LINE, MAX_NAME, Setting, check_limits
from core.errors import Invalid

MAX_HOURS = 50
MAX_DATES = 1_000
_DAYS_AHEAD = 400
_DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class OpeningHours:
    """A daily time window on some weekdays."""

    weekdays: Annotated[tuple[int, ...], Setting("Weekdays", max_items=7)]
    """Weekdays as numbers from 0 (Monday) to 6 (Sunday)."""
    begin: Annotated[time, Setting("Begin")] = time(0)
    """Start of the window in local time."""
    end: Annotated[time, Setting("End")] = time(0)
    """End of the window in local time. An end before or at the start means the next day."""


@dataclass(frozen=True, slots=True)
class FreezePeriod:
    """A period without releases."""

    begin: Annotated[datetime, Setting("Begin")]
    """Start of the period, with a time zone."""
    end: Annotated[datetime, Setting("End")]
    """End of the period, with a time zone."""
    reason: Annotated[str, Setting("Reason", max_length=MAX_LINE)] = ""
    """Reason shown to users."""


@dataclass(frozen=True, slots=True)
class Calendar:
    """A calendar of release windows.

    Hours that began on the day before a holiday end at midnight.
    """

    zone: Annotated[str, Setting("Time zone", max_length=MAX_NAME)] = "UTC"
    """IANA time zone, such as `Europe/Berlin`."""
    hours: Annotated[tuple[OpeningHours, ...], Setting("Hours", max_items=MAX_HOURS)] = ()
    """Windows in which releases pass. Default: always."""
    holidays: Annotated[tuple[date, ...], Setting("Holidays", max_items=MAX_DATES)] = ()
    """Dates without releases, in the time zone."""
    freezes: Annotated[tuple[FreezePeriod, ...], Setting("Freezes", max_items=MAX_DATES)] = ()
    """Periods without releases."""

    def check(self, field: str) -> None:
        """Raises Invalid for an unknown zone or too many entries."""
        check_limits(self, field)
        zone_of(self.zone, f"{field}.zone")
        for hours in self.hours:
            if not hours.weekdays or not all(0 <= day <= 6 for day in hours.weekdays):
                raise Invalid("weekdays must be 0 (Monday) to 6 (Sunday)", field=f"{field}.hours")
        for period in self.freezes:
            check_limits(period, f"{field}.freezes")
            if period.begin.tzinfo is None or period.end.tzinfo is None:
                raise Invalid("the times of a freeze need a time zone", field=f"{field}.freezes")
            if period.end <= period.begin:
                raise Invalid("a freeze must end after it begins", field=f"{field}.freezes")

    def closed_reason(self, now: datetime) -> str | None:
        """Returns the reason why the calendar is closed; None: it is open."""
        for period in self.freezes:
            if period.begin <= now < period.end:
                return (
                    f"frozen until {_format_time(period.end)}: {period.reason or 'no reason given'}"
                )
        local = now.astimezone(zone_of(self.zone))
        if local.date() in self.holidays:
            return f"{local.date()} is a holiday"
        if not self.hours or any(begin <= now < end for begin, end in self._opening_spans(now, 2)):
            return None
        return f"outside the hours of {self.zone}"

    def next_change(self, now: datetime) -> datetime | None:
        """Returns the next opening or closing time within 400 days; None: no change."""
        is_open = self.closed_reason(now) is None
        moments = sorted({moment for moment in self._possible_changes(now) if moment > now})
        return next(
            (moment for moment in moments if (self.closed_reason(moment) is None) != is_open), None
        )

    def _possible_changes(self, now: datetime) -> Iterator[datetime]:
        """Returns all moments at which the calendar may open or close."""
        for begin, end in self._opening_spans(now, _DAYS_AHEAD):
            yield begin
            yield end
        for period in self.freezes:
            yield period.begin
            yield period.end
        for day in self.holidays:
            yield self._to_utc(day, time(0))
            yield self._to_utc(day + _DAY, time(0))

    def _opening_spans(self, now: datetime, days: int) -> Iterator[tuple[datetime, datetime]]:
        """Returns the opening hours that begin on each of `days` days, starting yesterday.

        Counts calendar days: 24 hours ago is not always yesterday, since days can have 23 or 25
        hours.
        """
        first = now.astimezone(zone_of(self.zone)).date() - _DAY
        for number in range(days):
            day = first + timedelta(days=number)
            for hours in self.hours:
                if day.weekday() in hours.weekdays:
                    last = day if hours.end > hours.begin else day + _DAY
                    yield self._to_utc(day, hours.begin), self._to_utc(last, hours.end, last=True)

    def _to_utc(self, day: date, hour: time, *, last: bool = False) -> datetime:
        """Converts a wall-clock time into a moment; `last` selects the later of two."""
        zone = zone_of(self.zone)
        local = datetime.combine(day, hour, zone).replace(fold=int(last))
        moment = local.astimezone(UTC)
        if moment.astimezone(zone).replace(tzinfo=None) == local.replace(tzinfo=None):
            return moment
        # This hour does not exist: the moment of the change is where both readings meet.
        before = local.replace(fold=0).utcoffset() or timedelta()
        after = local.replace(fold=1).utcoffset() or timedelta()
        return _change_between(moment - abs(after - before) * 2, moment, zone)


def zone_of(name: str, field: str = "zone") -> ZoneInfo:
    """Returns a time zone by its IANA name. Raises Invalid if it does not exist."""
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise Invalid(
            f"{name[:80]!r} is not an IANA time zone such as Europe/Berlin", field=field
        ) from None


def _change_between(low: datetime, high: datetime, zone: ZoneInfo) -> datetime:
    """Finds the moment (UTC, to the second) at which the zone's offset changes."""
    high += timedelta(hours=3)
    first = low.astimezone(zone).utcoffset()
    while high - low > timedelta(seconds=1):
        middle = low + (high - low) // 2
        if middle.astimezone(zone).utcoffset() == first:
            low = middle
        else:
            high = middle
    return high.replace(microsecond=0)


def _format_time(moment: datetime) -> str:
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M} UTC"
