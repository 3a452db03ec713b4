"""Times as text."""

from datetime import UTC, datetime


def format_time(at: datetime) -> str:
    """ISO 8601 in UTC, with microseconds."""
    return (at if at.tzinfo is UTC else at.astimezone(UTC)).isoformat(timespec="microseconds")
