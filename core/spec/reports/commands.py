"""Results of the control plane's commands."""

from dataclasses import dataclass
from enum import StrEnum

from core.spec.source import RenderedBundle


class CommandOutcome(StrEnum):
    """Outcome of a command."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    REFUSED = "refused"
    """The agent does not execute the command."""


@dataclass(frozen=True, slots=True)
class CommandAnswer:
    """Result of a command."""

    command_id: str
    outcome: CommandOutcome
    message: str = ""
    rendered: RenderedBundle | None = None
    """Result of a render command."""
