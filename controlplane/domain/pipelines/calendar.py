"""When a gate is open by the calendar: hours of weekdays in a time zone, holidays, freezes.

Hours are those that clocks on the wall show. In the night when summer time begins, an hour that
no clock shows counts as the moment of the change; in the night when it ends, an hour shown twice
is open both times.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from fleet.errors import Invalid

MAX_HOURS = 50
MAX_DATES = 1_000
_DAYS_AHEAD = 400
_DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Hours:
    """From `begin` until `end` on weekdays (0 is Monday); an end not after the begin is of the
    next day."""

    weekdays: tuple[int, ...]
    begin: time = time(0)
    end: time = time(0)


@dataclass(frozen=True, slots=True)
class Period:
    """A time from `begin` until `end`, both aware, in which nothing passes; `reason` says why."""

    begin: datetime
    end: datetime
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Calendar:
    """Open in any of `hours` (none: always), but not on `holidays` and in no freeze.

    Holidays are dates in the zone. Hours that begin on the day before run on into a holiday no
    further than midnight.
    """

    zone: str = "UTC"
    hours: tuple[Hours, ...] = ()
    holidays: tuple[date, ...] = ()
    freezes: tuple[Period, ...] = ()

    def check(self, field: str) -> None:
        """Invalid: no such zone, or more than fits."""
        zone_of(self.zone, f"{field}.zone")
        if len(self.hours) > MAX_HOURS:
            raise Invalid(f"{MAX_HOURS} at most", field=f"{field}.hours")
        if max(len(self.holidays), len(self.freezes)) > MAX_DATES:
            raise Invalid(f"{MAX_DATES:,} at most", field=f"{field}.holidays")
        for hours in self.hours:
            if not hours.weekdays or not all(0 <= day <= 6 for day in hours.weekdays):
                raise Invalid("weekdays are numbers from 0, Monday, to 6", field=f"{field}.hours")
        for period in self.freezes:
            if period.begin.tzinfo is None or period.end.tzinfo is None:
                raise Invalid("times of freezes need a zone", field=f"{field}.freezes")
            if period.end <= period.begin:
                raise Invalid("a freeze ends after it begins", field=f"{field}.freezes")

    def closed(self, now: datetime) -> str | None:
        """Why nothing may pass now; None: it is open."""
        for period in self.freezes:
            if period.begin <= now < period.end:
                return f"frozen until {_told(period.end)}: {period.reason or 'no reason given'}"
        local = now.astimezone(zone_of(self.zone))
        if local.date() in self.holidays:
            return f"{local.date()} is a holiday"
        if not self.hours or any(begin <= now < end for begin, end in self._spans(now, 2)):
            return None
        return f"outside the hours of {self.zone}"

    def next_change(self, now: datetime) -> datetime | None:
        """When it next opens or closes, within 400 days; None: it stays as it is."""
        is_open = self.closed(now) is None
        moments = sorted({one for one in self._moments(now) if one > now})
        return next((one for one in moments if (self.closed(one) is None) != is_open), None)

    def _moments(self, now: datetime) -> Iterator[datetime]:
        """All moments at which something may change."""
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
        """The opening hours that begin on so many days, the first of them yesterday.

        By the calendar: 24 hours ago is not always yesterday where a day has 23 or 25.
        """
        first = now.astimezone(zone_of(self.zone)).date() - _DAY
        for number in range(days):
            day = first + timedelta(days=number)
            for hours in self.hours:
                if day.weekday() in hours.weekdays:
                    last = day if hours.end > hours.begin else day + _DAY
                    yield self._at(day, hours.begin), self._at(last, hours.end, last=True)

    def _at(self, day: date, hour: time, *, last: bool = False) -> datetime:
        """A wall-clock time as a moment; `last`: the later one of two."""
        zone = zone_of(self.zone)
        local = datetime.combine(day, hour, zone).replace(fold=int(last))
        moment = local.astimezone(UTC)
        if moment.astimezone(zone).replace(tzinfo=None) == local.replace(tzinfo=None):
            return moment
        # No clock shows this hour: the moment of the change is where both readings meet.
        before = local.replace(fold=0).utcoffset() or timedelta()
        after = local.replace(fold=1).utcoffset() or timedelta()
        return _change_between(moment - abs(after - before) * 2, moment, zone)


def zone_of(name: str, field: str = "zone") -> ZoneInfo:
    """A time zone by its IANA name. Invalid: there is none."""
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise Invalid(f"{name[:80]!r} is no time zone like Europe/Berlin", field=field) from None


def _change_between(low: datetime, high: datetime, zone: ZoneInfo) -> datetime:
    """The moment (UTC, to the second) in which the zone's offset changes."""
    high += timedelta(hours=3)
    first = low.astimezone(zone).utcoffset()
    while high - low > timedelta(seconds=1):
        middle = low + (high - low) // 2
        if middle.astimezone(zone).utcoffset() == first:
            low = middle
        else:
            high = middle
    return high.replace(microsecond=0)


def _told(moment: datetime) -> str:
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M} UTC"
