"""Resources, the verbs on them, and their place in the tree of scopes.

installation → project → cluster → service; all other resources are in a project or directly below
the installation. Without a choice, a resource is in the default project.
"""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import NewType

from core.identity import DEFAULT_PROJECT as DEFAULT_PROJECT

Scope = NewType("Scope", str)
"""`installation`, or `<kind>:<id>` of a resource whose permissions everything below it inherits."""

INSTALLATION = Scope("installation")


class Verb(StrEnum):
    """Verbs of permissions."""

    READ = "read"
    """Read the resource."""
    WRITE = "write"
    """Create, change or delete the resource."""
    APPROVE = "approve"
    """Approve or reject a gate."""
    PAUSE = "pause"
    """Pause a pipeline or a rollout."""
    RESUME = "resume"
    """Resume a pipeline."""
    SKIP = "skip"
    """Skip a gate."""
    CONNECT = "connect"
    """Connect to the Kubernetes API of a cluster."""
    USE = "use"
    """Let a service use a secret. This reveals the value to no user."""
    ADMINISTER = "administer"
    """Administer the resource, for example end requests of other users."""


class ResourceKind(StrEnum):
    """Kinds of resources."""

    PROJECT = "project"
    """A project."""
    CLUSTER = "cluster"
    """A cluster."""
    SERVICE = "service"
    """A service, global service, service set or managed namespace."""
    PIPELINE = "pipeline"
    """A pipeline."""
    REPOSITORY = "repository"
    """A Git repository or a Helm repository."""
    SECRET = "secret"
    """A secret."""
    CONTEXT = "context"
    """A service context."""
    CONFIGURATION_SOURCE = "configuration-source"
    """A configuration source."""
    USER = "user"
    """A user or a service account."""
    GROUP = "group"
    """A group of users."""
    ROLE = "role"
    """A role."""
    BINDING = "binding"
    """A role binding."""
    AUDIT = "audit"
    """The audit log."""
    NOTIFICATION = "notification"
    """A notification sink or router."""
    INSTALLATION = "installation"
    """The installation and its settings."""


def scope_of(kind: ResourceKind, id: str) -> Scope:
    """Returns the scope of a resource."""
    return Scope(f"{kind.value}:{id}")


@dataclass(frozen=True, slots=True)
class Resource:
    """A resource, or all resources of a kind in a scope (`id` is empty).

    `path` lists its scopes, widest first.
    """

    kind: ResourceKind
    id: str
    path: tuple[Scope, ...]
    name: str = field(default="", compare=False)

    @classmethod
    def whole(cls, kind: ResourceKind, id: str = "", name: str = "") -> "Resource":
        """Returns a resource directly below the installation, or all of a kind."""
        return cls(kind, id, (INSTALLATION,), name)

    @classmethod
    def within(
        cls, kind: ResourceKind, project_id: str, id: str = "", name: str = ""
    ) -> "Resource":
        """Returns a resource of a project, or all of a kind there."""
        path = (INSTALLATION, scope_of(ResourceKind.PROJECT, project_id))
        return cls(kind, id, (*path, scope_of(kind, id)) if id else path, name)

    @classmethod
    def of_project(
        cls, kind: ResourceKind, project_id: str | None, id: str = "", name: str = ""
    ) -> "Resource":
        """Returns a resource of a project, or all of a kind there. None: of the installation."""
        if project_id is None:
            return cls.whole(kind, id, name)
        return cls.within(kind, project_id, id, name)

    @classmethod
    def project(cls, id: str, name: str = "") -> "Resource":
        """Returns a project itself."""
        return cls(
            ResourceKind.PROJECT, id, (INSTALLATION, scope_of(ResourceKind.PROJECT, id)), name
        )

    def below(self, kind: ResourceKind, id: str = "", name: str = "") -> "Resource":
        """Returns a resource below this one, or all of a kind there."""
        return Resource(kind, id, (*self.path, scope_of(kind, id)) if id else self.path, name)

    @property
    def scope(self) -> Scope:
        """Returns the narrowest scope that contains the resource, or is the resource."""
        return self.path[-1]

    def __str__(self) -> str:
        if self.id:
            return f'{self.kind.value} "{self.name or self.id}"'
        return _PLURALS.get(self.kind, f"{self.kind.value}s")


_PLURALS = {
    ResourceKind.REPOSITORY: "repositories",
    ResourceKind.AUDIT: "the audit log",
    ResourceKind.INSTALLATION: "the installation",
}
