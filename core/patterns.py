"""Regular expressions of users and repositories, matched by RE2 in linear time.

Python's own engine can take years for a text of 200 characters. The syntax is that of Go and
RE2, without look-around and back references. The agent does not import this module, because
the library costs more memory than the agent's few patterns are worth.
"""

from functools import lru_cache
from typing import Any

import re2

from core.errors import Invalid

MAX_PATTERN_LENGTH = 512
MAX_TEXT_LENGTH = 64 << 10
"""Maximum length of a matched text, in characters: no name, tag or key is that long."""

# Each character costs time per instruction: 1,500 are enough for `[\pL\pN]+` or `.{1,128}`.
_MAX_INSTRUCTIONS = 1_500
_OPTIONS = re2.Options()
_OPTIONS.max_mem = 1 << 20
_OPTIONS.log_errors = False


def validate_pattern(pattern: str) -> None:
    """Raises Invalid unless the pattern is an RE2 expression within the limits."""
    _compile(pattern)


def search_pattern(pattern: str, text: str) -> bool:
    """Searches a text for a pattern. Raises Invalid for a bad pattern or too long a text."""
    # A lone surrogate, which JSON allows, matches nothing.
    return _compile(pattern).search(_checked_length(text).encode(errors="replace")) is not None


def match_groups(pattern: str, text: str) -> tuple[str | None, ...] | None:
    """Returns the groups if all of the text matches, else None. Raises Invalid."""
    match = _compile(pattern).fullmatch(_checked_length(text))
    return None if match is None else match.groups()


def _checked_length(text: str) -> str:
    if len(text) > MAX_TEXT_LENGTH:
        raise Invalid(
            f"the text has {len(text)} characters; at most {MAX_TEXT_LENGTH} can be matched"
        )
    return text


@lru_cache(maxsize=256)
def _compile(pattern: str) -> Any:
    if len(pattern) > MAX_PATTERN_LENGTH:
        raise Invalid(f"the regular expression has more than {MAX_PATTERN_LENGTH} characters")
    try:
        expression = re2.compile(pattern, _OPTIONS)
    except re2.error as error:
        reason = error.args[0].decode(errors="replace") if error.args else ""
        raise Invalid(f"not an RE2 regular expression: {reason}") from None
    except UnicodeEncodeError:
        raise Invalid("not a regular expression: it contains a lone surrogate") from None
    if expression.programsize > _MAX_INSTRUCTIONS:
        raise Invalid("the regular expression is too complex; reduce its repetitions")
    return expression
