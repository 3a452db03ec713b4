"""Names that users choose: handles, services, namespaces, and limits of free text."""

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

from controlplane.platform.limits import check_length
from core.errors import Invalid
from core.json_object import JsonMapping

_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_SLUG = re.compile(r"[^a-z0-9]+")
MAX_TEXT = 255
MAX_NAME = 2048

# C0 and C1 controls, and bidirectional marks and overrides, which make text display differently
# from its content.
_DECEPTIVE = re.compile("[\x00-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def check_label(value: str, field: str) -> str:
    """Checks an RFC 1123 label, the form of handles, service names and namespaces."""
    if not value:
        raise Invalid("is required", field=field)
    if not _LABEL.fullmatch(value):
        raise Invalid(
            f"{value[:80]!r} is not a valid name: use at most 63 characters of a-z, 0-9 and '-'",
            field=field,
        )
    return value


def is_label(value: str) -> bool:
    """Returns whether this is an RFC 1123 label."""
    return _LABEL.fullmatch(value) is not None


def check_text(value: str, field: str, limit: int = MAX_TEXT) -> str:
    """Checks non-empty text within its limit and without control or bidirectional characters."""
    if not value.strip():
        raise Invalid("must not be empty", field=field)
    check_length(value, field, limit)
    if _DECEPTIVE.search(value):
        raise Invalid("must not contain control characters", field=field)
    return value


class NameForm(NamedTuple):
    """Form of the names of a kind of resources."""

    schema: JsonMapping
    """JSON Schema of the names."""
    check: Callable[[str], object]
    """Raises Invalid for a name of another form."""


def check_any_name(value: str) -> str:
    """Checks a name of any form, such as a URL."""
    return check_text(value, "", MAX_NAME)


ANY_NAME = NameForm({"type": "string", "minLength": 1}, check_any_name)
LABEL_NAME = NameForm(
    {"type": "string", "pattern": f"^{_LABEL.pattern}$"}, lambda value: check_label(value, "")
)
"""An RFC 1123 label."""


def join_names(names: Sequence[object], most: int = 5) -> str:
    """Returns the first names for a message, with the number of the others."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(map(str, names[:most])) + more


def handle_from(name: str) -> str:
    """Returns the handle of a cluster that is registered without one."""
    return _SLUG.sub("-", name.lower()).strip("-")[:63].strip("-")
