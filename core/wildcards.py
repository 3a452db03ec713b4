"""Patterns of fences and signers, in which `*` is any text."""

import re
from fnmatch import translate
from functools import lru_cache

from core.errors import Invalid

_PATTERN = re.compile(r"[A-Za-z0-9*][A-Za-z0-9*._:/@+-]{0,511}")
_MAX_STARS = 8


def check_pattern(pattern: str, field: str) -> str:
    """Returns a pattern. Invalid: it is none."""
    if not _PATTERN.fullmatch(pattern) or pattern.count("*") > _MAX_STARS:
        raise Invalid(
            f"{pattern!r} is not a pattern: use letters, digits and . _ : / @ + -, with up to "
            f"{_MAX_STARS} times * for any text",
            field=field,
        )
    return pattern


def matches(pattern: str, text: str) -> bool:
    """Reports whether all of a text matches a pattern."""
    return _compile(pattern).fullmatch(text) is not None


def matches_any(patterns: tuple[str, ...], text: str) -> bool:
    """Reports whether a text matches one of the patterns."""
    return any(matches(pattern, text) for pattern in patterns)


def overlap(first: str, second: str) -> bool:
    """Reports whether a text can match both patterns."""
    if "*" not in first or "*" not in second:
        return matches(first, second) or matches(second, first)
    # Between head and tail, a `*` of each pattern takes the middle of the other one.
    heads = sorted((first.partition("*")[0], second.partition("*")[0]), key=len)
    tails = sorted((first.rpartition("*")[2], second.rpartition("*")[2]), key=len)
    return heads[1].startswith(heads[0]) and tails[1].endswith(tails[0])


@lru_cache(4096)
def _compile(pattern: str) -> re.Pattern[str]:
    return re.compile(translate(pattern))
