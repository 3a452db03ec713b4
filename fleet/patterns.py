"""Regular expressions that users and repositories bring, tried by RE2: never for ever.

Its time grows with the text alone, where Python's own engine can take years for 200 characters.
The syntax is that of Go and RE2: nothing looks around, nothing refers back. No part of the agent
imports this, as the library costs more memory than the agent's few patterns are worth.
"""

from functools import lru_cache
from typing import Any

import re2

from fleet.errors import Invalid

MOST_CHARACTERS = 512
MOST_TEXT = 64 << 10
"""Characters of a text that is tried: no name, tag or key is that long."""

# Each character of a text costs time for each instruction: 1,500 hold `[\pL\pN]+` or `.{1,128}`.
_MOST_INSTRUCTIONS = 1_500
_OPTIONS = re2.Options()
_OPTIONS.max_mem = 1 << 20
_OPTIONS.log_errors = False


def check(pattern: str) -> None:
    """Invalid: it is no regular expression of RE2, or too large a one."""
    _compiled(pattern)


def is_found(pattern: str, text: str) -> bool:
    """Whether a text holds what the pattern describes. Invalid: as `check`, or too long a text."""
    # Half a character, which JSON can hold, fits nothing.
    return _compiled(pattern).search(_bounded(text).encode(errors="replace")) is not None


def groups(pattern: str, text: str) -> tuple[str | None, ...] | None:
    """The groups of the pattern, if the whole text fits it, else None. Invalid: as `is_found`."""
    found = _compiled(pattern).fullmatch(_bounded(text))
    return None if found is None else found.groups()


def _bounded(text: str) -> str:
    if len(text) > MOST_TEXT:
        raise Invalid(f"a text of {len(text)} characters, of which {MOST_TEXT} are tried at most")
    return text


@lru_cache(maxsize=256)
def _compiled(pattern: str) -> Any:
    if len(pattern) > MOST_CHARACTERS:
        raise Invalid(f"more than {MOST_CHARACTERS} characters for a regular expression")
    try:
        found = re2.compile(pattern, _OPTIONS)
    except re2.error as error:
        said = error.args[0].decode(errors="replace") if error.args else ""
        raise Invalid(f"no regular expression of RE2: {said}") from None
    except UnicodeEncodeError:
        raise Invalid("no regular expression: it holds half a character") from None
    if found.programsize > _MOST_INSTRUCTIONS:
        raise Invalid("too large a regular expression: let it repeat less")
    return found
