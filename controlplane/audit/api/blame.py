"""Field owners of objects in the API."""

from datetime import datetime

import strawberry

from controlplane.audit.operations.blame import Blame
from controlplane.audit.operations.blame import FieldBlame as FieldBlameRow
from controlplane.platform.graphql.context import Info
from controlplane.services.api.types import RevisionType


@strawberry.type
class FieldBlameType:
    """A field of an object and its origin, as far as it is known.

    Fields of the service name the oldest of the last 30 revisions with this value. Other fields
    name the request through Towline that wrote them, for callers who may read the audit log.
    """

    pointer: str
    """JSON pointer of the field (RFC 6901)."""
    value: str
    """Value as JSON, cut after 500 characters."""
    manager: str
    """Field manager (server-side apply)."""
    operation: str
    """`Apply` or `Update`."""
    subresource: str | None
    """Subresource that was written, such as `status`."""
    at: datetime | None
    """Time of the last write by the manager."""
    revision: RevisionType | None
    """Revision of the service that introduced the value."""
    is_oldest_revision: bool
    """True if the value may be older than `revision`."""
    person: str | None
    """E-mail address of the commit author, or of the user who sent the request."""
    request_id: str | None
    """ID of the request that wrote the field."""

    @classmethod
    def of(cls, row: FieldBlameRow) -> "FieldBlameType":
        revision, request = row.revision, row.request
        person = revision.author if revision else request.actor if request else None
        return cls(
            pointer=row.field.pointer,
            value=row.field.value,
            manager=row.field.manager,
            operation=row.field.operation,
            subresource=row.field.subresource or None,
            at=row.field.at,
            revision=RevisionType.of(revision) if revision else None,
            is_oldest_revision=row.is_oldest,
            person=person,
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
        return [FieldBlameType.of(row) for row in rows]
