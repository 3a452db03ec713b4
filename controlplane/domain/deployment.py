"""Deployment settings: what holds for all clusters that are added."""

from dataclasses import dataclass
from datetime import datetime

SETTINGS_ID = "00000000-0000-7000-8000-000000000002"
"""The id of the one row."""


@dataclass(frozen=True, slots=True)
class DeploymentSettings:
    """What who installs an agent is told.

    `agent_values` are values (YAML) for the agent's chart, `agent_values_templated` says that
    they hold Liquid to be filled in with the cluster.
    """

    id: str
    updated_at: datetime
    agent_values: str | None = None
    agent_values_templated: bool = False
