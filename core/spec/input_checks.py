"""Checks of an agent about the inputs of a bundle: its signature, its sources and its images."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

MAX_INPUT_CHECKS = 200


class InputKind(StrEnum):
    """Part of a bundle that an agent checks."""

    BUNDLE = "bundle"
    """The signed statement about the bundle."""
    SOURCE = "source"
    """A commit or chart, and its signature."""
    IMAGE = "image"
    """A container image, and its signature."""


class CheckResult(StrEnum):
    """Result of a check."""

    VERIFIED = "verified"
    """The agent verified a signature."""
    UNVERIFIED = "unverified"
    """The cluster's operator asks for no signature."""
    REFUSED = "refused"
    """The agent refuses the bundle for it."""


@dataclass(frozen=True, slots=True)
class InputCheck:
    """A check of one input of a bundle."""

    kind: InputKind
    subject: str
    """Digest of the bundle, title of the source, or name of the image."""
    result: CheckResult
    reason: str
    """Signer that was found, or reason of the result, for people."""


@dataclass(frozen=True, slots=True)
class InputVerdict:
    """All checks of an agent about one bundle. Limit: 200 checks."""

    digest: str
    at: datetime
    """Time of the first check with these results, by the agent's clock."""
    checks: tuple[InputCheck, ...]

    def find_check(self, kind: InputKind, subject: str) -> InputCheck | None:
        """Returns the check of an input; None if the agent has not checked it."""
        for check in self.checks:
            if (check.kind, check.subject) == (kind, subject):
                return check
        return None
