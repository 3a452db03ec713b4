"""Settings of agents: version, size and Helm values, for the clusters that a selector matches."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from controlplane.authorization import Resource, ResourceKind
from controlplane.clusters.model.selectors import Selector
from controlplane.platform.limits import check_length, check_range
from controlplane.platform.names import check_text
from controlplane.platform.parts import NamedRow, part
from core.errors import Invalid
from core.json_object import JsonObject

GLOBAL = "global"
"""Name of the settings that compatible clients read and change."""
_MAX_VALUES_LENGTH = 64 * 1024
_MAX_PRIORITY = 1000
MAX_UPGRADING = 10
"""Agents of the same settings that upgrade at the same time, including those that failed."""


class AgentSize(StrEnum):
    """Memory and CPU of an agent."""

    SMALL = "small"
    """50m CPU, 128 to 512 MiB of memory: the defaults of the chart."""
    MEDIUM = "medium"
    """100m CPU, 256 MiB to 1 GiB of memory."""
    LARGE = "large"
    """250m CPU, 512 MiB to 2 GiB of memory."""

    @property
    def resources(self) -> JsonObject:
        """Returns the requests and limits of the container."""
        cpu, request, limit = _RESOURCES[self]
        return {"requests": {"cpu": cpu, "memory": request}, "limits": {"memory": limit}}


_RESOURCES = {
    AgentSize.SMALL: ("50m", "128Mi", "512Mi"),
    AgentSize.MEDIUM: ("100m", "256Mi", "1Gi"),
    AgentSize.LARGE: ("250m", "512Mi", "2Gi"),
}


@dataclass(frozen=True, slots=True)
class AgentSpec:
    """Clusters, version, size and Helm values of agents."""

    selector: Selector = Selector()
    """Conditions on clusters. Default: every cluster."""
    priority: int = 0
    """Precedence: the settings with the highest priority win. At the same priority, settings with a
    selector win over those without, then the first by name. Default: 0. Limits: -1,000 to 1,000."""
    version: str = ""
    """Version to which agents upgrade, such as `1.2.0`. Needs `image`. Without it, agents keep
    their version."""
    image: str = ""
    """Container image with this version."""
    size: AgentSize = AgentSize.SMALL
    """Memory and CPU of agents that Helm installs. Default: `SMALL`."""
    agent_values: str = ""
    """Helm values (YAML) for the agent chart. Without them, its defaults. Limit: 64 KiB."""
    agent_values_templated: bool = False
    """True if the values are a Liquid template with the variable `cluster`."""

    def checked(self) -> "AgentSpec":
        """Returns the spec. Raises Invalid if a value is not allowed."""
        check_length(self.agent_values, "agentValues", _MAX_VALUES_LENGTH)
        check_range(self.priority, "priority", -_MAX_PRIORITY, _MAX_PRIORITY)
        if bool(self.version) != bool(self.image):
            missing = "image" if self.version else "version"
            raise Invalid("is required: version and image belong together", field=missing)
        if self.version:
            check_text(self.version, "version", 64)
            check_text(self.image, "image", 1024)
        return replace(self, selector=self.selector.checked())

    @property
    def precedence(self) -> tuple[int, bool]:
        """Returns the rank: by priority, then those with a selector before those without."""
        return self.priority, self.selector != Selector()

    @property
    def upgrade(self) -> JsonObject:
        """Returns the payload of an upgrade command to this version."""
        return {"version": self.version, "image": self.image}

    @property
    def chart_values(self) -> JsonObject:
        """Returns the Helm values of size and image."""
        values: JsonObject = {"resources": self.size.resources}
        if self.image:
            name, _, digest = self.image.partition("@")
            host, slash, path = name.rpartition("/")
            path, _, tag = path.partition(":")
            parts = {"repository": f"{host}{slash}{path}", "tag": tag, "digest": digest}
            values["image"] = {key: value for key, value in parts.items() if value}
        return values


@dataclass(frozen=True, slots=True)
class AgentSettings(NamedRow):
    """Settings of the agents of selected clusters. Compatible clients read and change `global`."""

    spec: AgentSpec = part(AgentSpec)

    @property
    def target(self) -> Resource:
        """Returns the location for authorization: settings belong to the installation."""
        return Resource.whole(ResourceKind.INSTALLATION)


@dataclass(frozen=True, slots=True)
class EffectiveAgentSettings:
    """The settings of one cluster, and the others that match it."""

    settings: AgentSettings
    """The settings that win."""
    others: Sequence[AgentSettings] = ()
    problem: str = ""
    """Reason for which the agent did not upgrade. Empty if there is none."""

    @property
    def conflicts(self) -> list[str]:
        """Returns the names of other settings with the same precedence."""
        rank = self.settings.spec.precedence
        return [other.name for other in self.others if other.spec.precedence == rank]


def most_specific(matching: Iterable[AgentSettings]) -> EffectiveAgentSettings | None:
    """Returns the settings with the highest precedence; among equal ones, the first by name."""
    ranked = sorted(matching, key=lambda settings: settings.name)
    ranked.sort(key=lambda settings: settings.spec.precedence, reverse=True)
    return EffectiveAgentSettings(ranked[0], ranked[1:]) if ranked else None
