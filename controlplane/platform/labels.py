"""Label selectors in the words of kubectl: `team=a`, `team!=a`, `team` and `!team`."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from core.errors import Invalid

MAX_REQUIREMENTS = 10
_MAX_LENGTH = 500
_REQUIREMENT = re.compile(
    r"(?P<none>!?)(?P<name>[^=!\s]+)|(?P<key>[^=!\s]+)(?P<sign>!?==?)(?P<value>.*)"
)


@dataclass(frozen=True, slots=True)
class LabelRequirement:
    """A label that a resource has, or with `negated`, has not."""

    name: str
    value: str | None = None
    """Value of the label. None: any value."""
    negated: bool = False

    def matches(self, *labels: Mapping[str, str]) -> bool:
        """Returns whether a resource with these labels meets the requirement."""
        found = any(
            self.name in given and self.value in (None, given[self.name]) for given in labels
        )
        return found != self.negated


def parse_selector(text: str, field: str = "labels") -> tuple[LabelRequirement, ...]:
    """Parses a selector; all of its requirements must be met. Raises Invalid."""
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if len(parts) > MAX_REQUIREMENTS or len(text) > _MAX_LENGTH:
        raise Invalid(
            f"at most {MAX_REQUIREMENTS} labels and {_MAX_LENGTH} characters are allowed",
            field=field,
        )
    return tuple(_parse(part, field) for part in parts)


def _parse(part: str, field: str) -> LabelRequirement:
    found = _REQUIREMENT.fullmatch(part)
    if found is None:
        raise Invalid(
            f"{part[:80]!r} is no label selector; use team=a, team!=a, team or !team", field=field
        )
    if found["name"]:
        return LabelRequirement(found["name"], None, bool(found["none"]))
    return LabelRequirement(found["key"], found["value"], found["sign"].startswith("!"))
