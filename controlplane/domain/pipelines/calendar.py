"""Calendars of gates: weekday hours in a time zone, holidays and freezes.

Hours are local wall-clock times. When summer time begins, an hour that does not exist counts as the
moment of the change. When it ends, an hour that occurs twice is open both times.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from core.errors import Invalid

MAX_HOURS = 50
MAX_DATES = 1_000
_DAYS_AHEAD = 400
_DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class OpeningHours:
    """Opening hours from `begin` until `end` on weekdays (0 is Monday).

    An end that is not after the begin belongs to the next day.
    """

    weekdays: tuple[int, ...]
    begin: time = time(0)
    end: time = time(0)


@dataclass(frozen=True, slots=True)
class FreezePeriod:
    """A freeze from `begin` until `end` (timezone-aware), in which the gate stays closed; `reason`
    says why.
    """

    begin: datetime
    end: datetime
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Calendar:
    """Open during any of `hours` (none: always), except on `holidays` and in freezes.

    Holidays are dates in the zone. Hours that began on the day before a holiday end at midnight.
    """

    zone: str = "UTC"
    hours: tuple[OpeningHours, ...] = ()
    holidays: tuple[date, ...] = ()
    freezes: tuple[FreezePeriod, ...] = ()

    def check(self, field: str) -> None:
        """Raises Invalid for an unknown zone or too many entries."""
        zone_of(self.zone, f"{field}.zone")
        if len(self.hours) > MAX_HOURS:
            raise Invalid(f"maximum {MAX_HOURS}", field=f"{field}.hours")
        if max(len(self.holidays), len(self.freezes)) > MAX_DATES:
            raise Invalid(f"maximum {MAX_DATES:,}", field=f"{field}.holidays")
        for hours in self.hours:
            if not hours.weekdays or not all(0 <= day <= 6 for day in hours.weekdays):
                raise Invalid("weekdays must be 0 (Monday) to 6 (Sunday)", field=f"{field}.hours")
        for period in self.freezes:
            if period.begin.tzinfo is None or period.end.tzinfo is None:
                raise Invalid("the times of a freeze need a time zone", field=f"{field}.freezes")
            if period.end <= period.begin:
                raise Invalid("a freeze must end after it begins", field=f"{field}.freezes")

    def closed(self, now: datetime) -> str | None:
        """Returns the reason why the calendar is closed; None: it is open."""
        for period in self.freezes:
            if period.begin <= now < period.end:
                return (
                    f"frozen until {_format_time(period.end)}: {period.reason or 'no reason given'}"
                )
        local = now.astimezone(zone_of(self.zone))
        if local.date() in self.holidays:
            return f"{local.date()} is a holiday"
        if not self.hours or any(begin <= now < end for begin, end in self._spans(now, 2)):
            return None
        return f"outside the hours of {self.zone}"

    def next_change(self, now: datetime) -> datetime | None:
        """Returns the next opening or closing time within 400 days; None: no change."""
        is_open = self.closed(now) is None
        moments = sorted({moment for moment in self._moments(now) if moment > now})
        return next(
            (moment for moment in moments if (self.closed(moment) is None) != is_open), None
        )

    def _moments(self, now: datetime) -> Iterator[datetime]:
        """Returns all moments at which the calendar may open or close."""
        for begin, end in self._spans(now, _DAYS_AHEAD):
            yield begin
            yield end
        for period in self.freezes:
            yield period.begin
            yield period.end
        for day in self.holidays:
            yield self._at(day, time(0))
            yield self._at(day + _DAY, time(0))

    def _spans(self, now: datetime, days: int) -> Iterator[tuple[datetime, datetime]]:
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
                    yield self._at(day, hours.begin), self._at(last, hours.end, last=True)

    def _at(self, day: date, hour: time, *, last: bool = False) -> datetime:
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
