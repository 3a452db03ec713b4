"""Estimates the size of values with aliases, without expanding them."""

from core.errors import Invalid

_WITHIN = -1


def expanded(value: object) -> int:
    """Estimates the encoded size of a value in bytes. Invalid: it contains itself, or is nested too
    deeply.
    """
    try:
        return _expanded(value, {})
    except RecursionError:
        raise Invalid("it is nested too deeply") from None


def _expanded(value: object, known: dict[int, int]) -> int:
    if not isinstance(value, dict | list):
        return len(value) if isinstance(value, str) else 1
    place = id(value)
    if known.get(place) == _WITHIN:
        raise Invalid("an alias refers to a value that contains it")
    if place not in known:
        known[place] = _WITHIN
        parts = [*value, *value.values()] if isinstance(value, dict) else value
        known[place] = 2 + sum(1 + _expanded(part, known) for part in parts)
    return known[place]
