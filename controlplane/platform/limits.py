"""Limits of what users give: ranges of numbers, counts of entries, lengths, and repeated names."""

from collections.abc import Iterable

from core.errors import Invalid


def check_range(value: float, field: str, least: float, most: float, unit: str = "") -> None:
    """Raises Invalid for a number below `least` or above `most`."""
    if not least <= value <= most:
        allowed = f"{least:,} to {most:,} {unit}".rstrip()
        raise Invalid(f"must be {allowed}, not {value:,}", field=field)


def check_count(
    count: int, field: str, most: int, noun: str = "entries", *, least: int = 0
) -> None:
    """Raises Invalid for fewer than `least` or more than `most` of something."""
    if not least <= count <= most:
        allowed = f"{least:,} to {most:,}" if least else f"at most {most:,}"
        raise Invalid(f"must have {allowed} {noun}, not {count:,}", field=field)


def check_length(text: str, field: str, most: int, *, least: int = 0) -> str:
    """Returns the text. Raises Invalid if it is too short or too long."""
    check_count(len(text), field, most, "characters", least=least)
    return text


def check_unique(names: Iterable[str], field: str, noun: str = "entry") -> None:
    """Raises Invalid for a name that occurs twice."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise Invalid(f"duplicate {noun} {name[:80]}", field=field)
        seen.add(name)
