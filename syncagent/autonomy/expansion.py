"""How large values become that refer to themselves by aliases, without writing them out."""

from typing import Any

from fleet.errors import Invalid

_WITHIN = -1


def expanded(value: Any) -> int:
    """About how many bytes a value has once written. Invalid: it holds itself, or is too deep."""
    try:
        return _expanded(value, {})
    except RecursionError:
        raise Invalid("it is nested too deeply") from None


def _expanded(value: Any, known: dict[int, int]) -> int:
    if not isinstance(value, dict | list):
        return len(value) if isinstance(value, str) else 1
    place = id(value)
    if known.get(place) == _WITHIN:
        raise Invalid("an alias stands within what it names")
    if place not in known:
        known[place] = _WITHIN
        parts = [*value, *value.values()] if isinstance(value, dict) else value
        known[place] = 2 + sum(1 + _expanded(one, known) for one in parts)
    return known[place]
