"""Results of the checks of `towline admin doctor`."""

from dataclasses import dataclass
from enum import StrEnum


class CheckHealth(StrEnum):
    """Result of a check."""

    OK = "ok"
    WARNING = "warning"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class CheckResult:
    """Result of one check of `admin doctor`; `text` says what to do."""

    check: str
    health: CheckHealth
    text: str
