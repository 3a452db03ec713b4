"""Times as text."""

from datetime import UTC, datetime


def format_time(at: datetime) -> str:
    """ISO 8601 in UTC, with microseconds."""
    return (at if at.tzinfo is UTC else at.astimezone(UTC)).isoformat(timespec="microseconds")


def parse_time(text: str) -> datetime:
    """Parses a time in ISO 8601, and converts it to UTC if it has a zone.

    Raises ValueError for any other text, and for a time before year 1 or after year 9999 in UTC.
    """
    parsed = datetime.fromisoformat(text)
    try:
        return parsed.astimezone(UTC) if parsed.tzinfo else parsed
    except OverflowError as error:
        raise ValueError(f"{text} is out of range") from error
