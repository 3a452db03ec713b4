"""Service contexts: named values for the templates of many services."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from controlplane.authorization import DEFAULT_PROJECT, Resource, ResourceKind
from controlplane.platform.parts import NamedRow
from core.json_object import JsonMapping


@dataclass(frozen=True, slots=True)
class ServiceContext(NamedRow):
    """Values that templates of several services read as `contexts.NAME.KEY`."""

    configuration: JsonMapping = field(default_factory=dict)
    """Values by key."""
    sealed: bytes | None = field(default=None, repr=False)
    """Secret values, encrypted. A secret wins over a plain value with the same key."""
    project_id: str = DEFAULT_PROJECT
    project_given: bool = False
    """True if a user named the project, even the default one."""
    types: Mapping[str, str] = field(default_factory=dict)
    """Types of some values, by key. Overrides must have these types, too."""
    by_reference: bool = False
    """True if templates see placeholders and only agents see secrets."""
    secrets_version: int = 0
    """Version of the secrets. Grows with each change."""

    @property
    def target(self) -> Resource:
        """Returns the context's location for authorization."""
        return Resource.within(ResourceKind.CONTEXT, self.project_id, self.id, self.name)
