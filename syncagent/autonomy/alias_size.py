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


def _expanded(value: object, sizes: dict[int, int]) -> int:
    if not isinstance(value, dict | list):
        return len(value) if isinstance(value, str) else 1
    identity = id(value)
    if sizes.get(identity) == _WITHIN:
        raise Invalid("an alias refers to a value that contains it")
    if identity not in sizes:
        sizes[identity] = _WITHIN
        parts = [*value, *value.values()] if isinstance(value, dict) else value
        sizes[identity] = 2 + sum(1 + _expanded(part, sizes) for part in parts)
    return sizes[identity]
