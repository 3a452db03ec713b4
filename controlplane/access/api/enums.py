"""Enums of access in the API."""

import strawberry

from controlplane.access.model.bindings import AccessRequestState
from controlplane.access.model.users import UserKind
from controlplane.authorization import ResourceKind, Verb
from controlplane.authorization.roles import BuiltInRole

strawberry.enum(BuiltInRole, name="BuiltInRole")
strawberry.enum(UserKind, name="UserKind")
strawberry.enum(Verb, name="Verb", description="Operation that a permission allows.")
strawberry.enum(
    ResourceKind, name="ResourceKind", description="Kind of resource that a permission covers."
)
strawberry.enum(AccessRequestState, name="AccessRequestState")
