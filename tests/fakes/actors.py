"""Callers of operations, with the permissions that a test gives them."""

from controlplane.authorization import (
    BUILT_IN,
    INSTALLATION,
    NO_PERMISSIONS,
    Actor,
    ActorKind,
    Grant,
    Policy,
    Scope,
)
from controlplane.authorization.roles import BuiltInRole


def person(role: BuiltInRole | None, name: str = "ada", scope: Scope = INSTALLATION) -> Actor:
    """A user with this role; the default scope is everything."""
    policy = Policy((Grant(BUILT_IN[role], scope),)) if role else NO_PERMISSIONS
    return Actor(ActorKind.USER, id=name, name=name, email=f"{name}@example.org", policy=policy)


ADMIN = person(BuiltInRole.ADMIN, "root")
EDITOR = person(BuiltInRole.EDITOR, "ed")
VIEWER = person(BuiltInRole.VIEWER, "vi")
NOBODY = person(None, "no")
