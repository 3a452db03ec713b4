"""The current time, for code that needs no `Clock`, whose module imports the event loop."""

from datetime import UTC, datetime


def utc_now() -> datetime:
    """Returns the current time in UTC, with time zone."""
    return datetime.now(UTC)  # noqa: TID251
