"""Patterns that people give to choose among tags: none of them may take for ever to be tried.

While one is tried nothing else in the process goes on, so what could be slow is never taken.
"""

import re
from dataclasses import dataclass

from fleet.errors import Invalid

MAX_PATTERN = 512
_LONGEST_TAG = 128
_MOST_WAYS = 20_000
_ASCII = [chr(code) for code in range(128)]
_REFUSED = re.compile(r"[*+}]\)*[*+{]|\)[*+{]|\\\d|\(\?(?!:|P<)")
_TOKEN = re.compile(
    r"(?P<open>\((?:\?:|\?P<\w+>)?)|(?P<mark>[|^$])"
    r"|(?P<atom>\)|\\[dDwWsS]|\\[^A-Za-z0-9]|\[\^?\]?(?:\\.|[^\]\\])*\]|[^\\\[\](){}*+?|^$])"
    r"(?P<times>[*+?]|\{\d*,?\d*\})?\??"
)
_FIXED = re.compile(r"\{0*[1-9]\d*\}")
Chars = frozenset[str]


def check_pattern(pattern: str, field: str, *, needed: bool) -> None:
    """Invalid: no regular expression, or one that may take for ever."""
    if needed and not pattern:
        raise Invalid("is needed", field=field)
    if len(pattern) > MAX_PATTERN or _REFUSED.search(pattern):
        raise Invalid("repeats what repeats, or looks around: too slow to be tried", field=field)
    try:
        re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        raise Invalid(f"no regular expression: {error}", field=field) from None
    if _ways(pattern, field) > _MOST_WAYS:
        raise Invalid(
            "repeats what may end in too many places: have each repetition end at a character "
            "that it cannot hold itself",
            field=field,
        )


@dataclass(slots=True)
class _Group:
    """A group, read from its end: what may come after it, and what its alternatives begin with."""

    after: Chars
    optional: bool = False
    begins: Chars = frozenset()


def _ways(pattern: str, field: str) -> int:
    """In how many ways at most a tag is tried, of which all but one fail."""
    ways, after, groups = 1, Chars(), [_Group(Chars())]
    for token in reversed(_tokens(pattern, field)):
        atom, times = token["atom"], token["times"] or ""
        if token["open"]:
            group = groups.pop()
            after = after | group.begins | (group.after if group.optional else Chars())
        elif token["mark"] == "|":
            groups[-1].begins |= after
            after = groups[-1].after
            ways *= 2
        elif atom == ")":
            groups.append(_Group(after, bool(times)))
            ways *= 2 if times else 1
        elif atom:
            chars = Chars(one for one in _ASCII if re.fullmatch(atom, one))
            varies = bool(times) and not _FIXED.fullmatch(times)
            if varies and chars & after:
                ways *= 2 if times == "?" else _LONGEST_TAG
            after = chars | (after if varies else Chars())
    return ways


def _tokens(pattern: str, field: str) -> list[re.Match[str]]:
    found = list(_TOKEN.finditer(pattern))
    if sum(len(one[0]) for one in found) != len(pattern):
        raise Invalid("holds what is not taken here, like \\b or \\x41", field=field)
    return found
