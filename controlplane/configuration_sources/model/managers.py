"""Managers of the fields of a resource, for users who are about to change it."""

from dataclasses import dataclass

from controlplane.configuration_sources.model.source import ApplyMode, ConfigurationSource
from core.spec.sync import DriftPolicy


@dataclass(frozen=True, slots=True)
class FieldManager:
    """A manager that has set fields of a resource through its manifest."""

    manager: str
    """Name of the manager, such as `terraform`."""
    fields: tuple[str, ...]
    """Paths of the fields that it set, such as `spec.ref`."""
    source: str = ""
    """Name of the configuration source. Empty for other managers."""
    reverts: bool = False
    """True if its next check reverts changes of these fields."""


def reverts_drift(source: ConfigurationSource) -> bool:
    """Returns whether a source reverts changes without asking anybody."""
    settings = source.settings
    is_automatic = settings.mode is ApplyMode.AUTOMATIC and not settings.suspended
    return is_automatic and settings.drift is DriftPolicy.HEAL
