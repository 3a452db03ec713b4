"""Triggers that start releases at fixed times."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated

from cronsim import CronSim, CronSimError

from controlplane.pipelines.model.calendar import zone_of
from controlplane.pipelines.model.triggers import TriggerRule
from controlplane.platform.plugin_settings import MAX_NAME, Setting
from core.errors import Invalid

_MAX_CRON = 512


@dataclass(frozen=True, slots=True)
class ScheduleRule(TriggerRule):
    """Times of a crontab line."""

    kind = "SCHEDULE"
    title = "Schedule"
    watches = False

    cron: Annotated[str, Setting("Crontab line", max_length=_MAX_CRON, example="30 9 * * 1-5")]
    """Crontab line, such as `30 9 * * 1-5`."""
    zone: Annotated[str, Setting("Time zone", max_length=MAX_NAME)] = "UTC"
    """IANA time zone."""

    def check_together(self, field: str) -> None:
        zone_of(self.zone, f"{field}.zone")
        try:
            next(CronSim(self.cron, datetime(2026, 1, 1, tzinfo=UTC)))
        except (CronSimError, StopIteration):
            raise Invalid(
                "must be a crontab line such as `30 9 * * 1-5`", field=f"{field}.cron"
            ) from None

    def next_after(self, moment: datetime) -> datetime:
        """Returns the first time after a moment, in UTC."""
        local = moment.astimezone(zone_of(self.zone))
        return next(CronSim(self.cron, local)).astimezone(UTC)
