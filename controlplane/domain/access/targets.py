"""What can be done to what, and where a thing stands in the tree of scopes.

installation → project → cluster → service; everything else stands in a project or right below
the installation. What has no project of its own belongs to the default one.
"""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import NewType

Scope = NewType("Scope", str)
"""`installation`, or `<kind>:<id>` of a thing in which rights are inherited by all below it."""

INSTALLATION = Scope("installation")
DEFAULT_PROJECT = "00000000-0000-7000-8000-000000000001"
"""The id of the project that is always there."""


class Verb(StrEnum):
    """What can be done to things."""

    READ = "read"
    WRITE = "write"
    APPROVE = "approve"
    PAUSE = "pause"
    """Stop a pipeline, or a roll-out, where it is."""
    RESUME = "resume"
    SKIP = "skip"
    CONNECT = "connect"
    USE = "use"
    """Let a service have a secret; it shows no value to anybody."""
    ADMINISTER = "administer"


class Kind(StrEnum):
    """The kinds of things that rights are about."""

    PROJECT = "project"
    CLUSTER = "cluster"
    SERVICE = "service"
    PIPELINE = "pipeline"
    REPOSITORY = "repository"
    SECRET = "secret"
    CONTEXT = "context"
    USER = "user"
    GROUP = "group"
    ROLE = "role"
    BINDING = "binding"
    AUDIT = "audit"
    NOTIFICATION = "notification"
    INSTALLATION = "installation"


def scope_of(kind: Kind, id: str) -> Scope:
    """The scope that a thing is."""
    return Scope(f"{kind.value}:{id}")


@dataclass(frozen=True, slots=True)
class Target:
    """A thing, or all of a kind in a place (`id` is empty). `path`: its scopes, widest first."""

    kind: Kind
    id: str
    path: tuple[Scope, ...]
    name: str = field(default="", compare=False)

    @classmethod
    def whole(cls, kind: Kind, id: str = "", name: str = "") -> "Target":
        """A thing right below the installation, or all of a kind."""
        return cls(kind, id, (INSTALLATION,), name)

    @classmethod
    def within(cls, kind: Kind, project_id: str | None, id: str = "", name: str = "") -> "Target":
        """A thing of a project, or all of a kind there; None is the default project."""
        path = (INSTALLATION, scope_of(Kind.PROJECT, project_id or DEFAULT_PROJECT))
        return cls(kind, id, (*path, scope_of(kind, id)) if id else path, name)

    @classmethod
    def project(cls, id: str, name: str = "") -> "Target":
        """A project itself."""
        return cls(Kind.PROJECT, id, (INSTALLATION, scope_of(Kind.PROJECT, id)), name)

    def below(self, kind: Kind, id: str = "", name: str = "") -> "Target":
        """A thing inside this one, or all of a kind there."""
        return Target(kind, id, (*self.path, scope_of(kind, id)) if id else self.path, name)

    @property
    def scope(self) -> Scope:
        """The narrowest scope that the thing stands in, or is."""
        return self.path[-1]

    def __str__(self) -> str:
        if self.id:
            return f'{self.kind.value} "{self.name or self.id}"'
        return _PLURALS.get(self.kind, f"{self.kind.value}s")


_PLURALS = {
    Kind.REPOSITORY: "repositories",
    Kind.AUDIT: "the audit trail",
    Kind.INSTALLATION: "the installation",
}
