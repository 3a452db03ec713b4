"""Deployment settings: defaults for all newly added clusters."""

from dataclasses import dataclass
from datetime import datetime

SETTINGS_ID = "00000000-0000-7000-8000-000000000002"
"""Id of the only row."""


@dataclass(frozen=True, slots=True)
class DeploymentSettings:
    """Installation values for agents.

    `agent_values` are Helm values (YAML) for the agent's chart. If `agent_values_templated`, they
    are a Liquid template that is rendered for each cluster.
    """

    id: str
    updated_at: datetime
    agent_values: str | None = None
    agent_values_templated: bool = False
