"""Regular expressions of users and repositories, matched by RE2 in linear time.

Python's own engine can take years for a text of 200 characters. The syntax is that of Go and
RE2, without look-around and back references. The agent does not import this module, because
the library costs more memory than the agent's few patterns are worth.
"""

from functools import lru_cache
from typing import Any

import re2

from fleet.errors import Invalid

MOST_CHARACTERS = 512
MOST_TEXT = 64 << 10
"""Maximum length of a matched text, in characters: no name, tag or key is that long."""

# Each character costs time per instruction: 1,500 are enough for `[\pL\pN]+` or `.{1,128}`.
_MOST_INSTRUCTIONS = 1_500
_OPTIONS = re2.Options()
_OPTIONS.max_mem = 1 << 20
_OPTIONS.log_errors = False


def check(pattern: str) -> None:
    """Raises Invalid unless the pattern is an RE2 expression within the limits."""
    _compiled(pattern)


def is_found(pattern: str, text: str) -> bool:
    """Searches a text for a pattern. Raises Invalid for a bad pattern or too long a text."""
    # A lone surrogate, which JSON allows, matches nothing.
    return _compiled(pattern).search(_bounded(text).encode(errors="replace")) is not None


def groups(pattern: str, text: str) -> tuple[str | None, ...] | None:
    """Returns the groups if the whole text matches, else None. Raises Invalid as `is_found`."""
    found = _compiled(pattern).fullmatch(_bounded(text))
    return None if found is None else found.groups()


def _bounded(text: str) -> str:
    if len(text) > MOST_TEXT:
        raise Invalid(f"the text has {len(text)} characters; at most {MOST_TEXT} can be matched")
    return text


@lru_cache(maxsize=256)
def _compiled(pattern: str) -> Any:
    if len(pattern) > MOST_CHARACTERS:
        raise Invalid(f"the regular expression has more than {MOST_CHARACTERS} characters")
    try:
        found = re2.compile(pattern, _OPTIONS)
    except re2.error as error:
        said = error.args[0].decode(errors="replace") if error.args else ""
        raise Invalid(f"not an RE2 regular expression: {said}") from None
    except UnicodeEncodeError:
        raise Invalid("not a regular expression: it contains a lone surrogate") from None
    if found.programsize > _MOST_INSTRUCTIONS:
        raise Invalid("the regular expression is too complex; reduce its repetitions")
    return found
