"""Description of a connecting agent."""

from dataclasses import dataclass

from controlplane.clusters.model.cluster import AgentMode
from core.spec.facts import ClusterFacts


@dataclass(frozen=True, slots=True)
class AgentHello:
    """The agent's description of itself and its cluster at connect."""

    instance: str
    agent_version: str
    facts: ClusterFacts
    mode: AgentMode = AgentMode.MANAGED
    sealing_key: bytes | None = None
