"""Results of the checks of `towline admin doctor`."""

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple


class CheckHealth(StrEnum):
    """Result of a check."""

    OK = "ok"
    WARNING = "warning"
    FAILED = "failed"


class Finding(NamedTuple):
    """Result of one check; `text` says what to do."""

    health: CheckHealth
    text: str


@dataclass(frozen=True, slots=True)
class CheckResult:
    """Result of one check of `admin doctor`, with the name of the check."""

    check: str
    health: CheckHealth
    text: str
