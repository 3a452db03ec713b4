"""Field owners of objects in the API."""

import strawberry

from controlplane.audit.operations.blame import Blame, FieldBlame
from controlplane.platform.graphql.context import Info
from controlplane.platform.graphql.derive import Output, output
from controlplane.services.api.types import RevisionType
from controlplane.services.model.blame import ManagedField


@output(ManagedField, hide={"steps"}, nullable={"subresource"})
class FieldBlameType(Output[ManagedField]):
    """A field of an object and its origin, as far as it is known.

    Fields of the service name the oldest of the last 30 revisions with this value. Other fields
    name the request through Towline that wrote them, for callers who may read the audit log.
    """

    revision: RevisionType | None
    """Revision of the service that introduced the value."""
    is_oldest_revision: bool
    """True if the value may be older than `revision`."""
    person: str | None
    """E-mail address of the commit author, or of the user who sent the request."""
    request_id: str | None
    """ID of the request that wrote the field."""

    @classmethod
    def with_origin(cls, row: FieldBlame) -> "FieldBlameType":
        revision, request = row.revision, row.request
        return cls.of(
            row.field,
            revision=RevisionType.of_optional(revision),
            is_oldest_revision=row.is_oldest,
            person=revision.author if revision else request.actor if request else None,
            request_id=request.request_id if request else None,
        )


@strawberry.type
class BlameQuery:
    @strawberry.field
    async def component_blame(
        self, info: Info, id: strawberry.ID, pointer: str = ""
    ) -> list[FieldBlameType]:
        """Owners of the fields of an object, read from the cluster with the permissions of the
        caller.

        Args:
            id: ID of the component.
            pointer: JSON pointer. Only fields below it are returned. Default: all fields.
        """
        rows = await info.context[Blame].of_component(info.context.actor, id, pointer)
        return [FieldBlameType.with_origin(row) for row in rows]
