"""Presence of agents, by their last sign of life."""

from towline.cli.shell.output import seconds_since

_SILENT_SECONDS = 120


def is_silent(pinged_at: str | None) -> bool:
    """Reports whether the last sign of life of an agent is older than two minutes."""
    return pinged_at is None or seconds_since(pinged_at) >= _SILENT_SECONDS
