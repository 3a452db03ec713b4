"""Deployment settings: defaults for all newly added clusters."""

from dataclasses import dataclass
from datetime import datetime

SETTINGS_ID = "00000000-0000-7000-8000-000000000002"
"""Id of the only row."""


@dataclass(frozen=True, slots=True)
class DeploymentSettings:
    """Settings for agent installations."""

    id: str
    updated_at: datetime
    agent_values: str | None = None
    """Helm values (YAML) for the agent chart. None for the defaults of the chart."""
    agent_values_templated: bool = False
    """True if the values are a Liquid template with the variable `cluster`."""
