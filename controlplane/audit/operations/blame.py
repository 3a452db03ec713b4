"""Origin of an object's fields: the commit or the request that set each value."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from controlplane.audit.model.chains import AuditFilter, AuditKind
from controlplane.audit.ports import AuditLog
from controlplane.authorization import Actor, ResourceKind
from controlplane.platform.audit_entry import AuditEntry, AuditVerdict
from controlplane.platform.context import OperationContext
from controlplane.platform.ports import PageQuery, Transaction
from controlplane.services.model.blame import ManagedField, managed_fields, value_at
from controlplane.services.model.service import Component, Revision
from controlplane.services.operations.components import ComponentOperations, ManagedObject
from controlplane.services.ports import RevisionStore, ServiceStore
from core.errors import TowlineError

_MAX_REVISIONS = 30
_WRITES = ("patch", "update")
# Clusters record whole seconds of their own clock.
_CLOCK_TOLERANCE = timedelta(seconds=30)


@dataclass(frozen=True, slots=True)
class FieldBlame:
    """A field and its known origin."""

    field: ManagedField
    revision: Revision | None = None
    """Oldest of the service's recent revisions with the present value."""
    is_oldest: bool = False
    """True if the search ended at `revision`, so that the value may be older."""
    request: AuditEntry | None = None
    """Request through the Kubernetes proxy that wrote a field of no service, if the actor may read
    the audit log."""


_Writer = tuple[str, str, datetime | None]


def _writer(field: ManagedField) -> _Writer:
    return field.subresource, field.manager, field.at


class Blame:
    """Finds the origin of fields in the cluster, the service's revisions and the audit log."""

    def __init__(self, context: OperationContext, components: ComponentOperations) -> None:
        self._context = context
        self._components = components

    async def of_component(self, actor: Actor, id: str, under: str = "") -> list[FieldBlame]:
        """Origin of all managed fields of an object, or of those below the pointer `under`.

        The cluster is read as the actor. Raises the errors of
        `ComponentOperations.read_managed_fields`.
        """
        managed_object = await self._components.read_managed_fields(actor, id)
        fields = managed_fields(managed_object.managed_fields, managed_object.live.object, under)
        has_own_fields = any(field.is_ours for field in fields)
        history = (
            await self._revision_history(managed_object.live.component) if has_own_fields else []
        )
        requests = await self._write_requests(actor, managed_object, fields)
        return [
            _from_history(field, history)
            if field.is_ours
            else FieldBlame(field, request=requests.get(_writer(field)))
            for field in fields
        ]

    async def _write_requests(
        self, actor: Actor, managed_object: ManagedObject, fields: Sequence[ManagedField]
    ) -> dict["_Writer", AuditEntry]:
        """The requests through the proxy that wrote the fields."""
        writers = {_writer(field) for field in fields if not field.is_ours}
        requests: dict[_Writer, AuditEntry] = {}
        async with self._context.store.read() as tx:
            for writer in writers:
                row = await _write_request(tx, actor, managed_object, writer)
                if row is not None:
                    requests[writer] = row
        return requests

    async def _revision_history(self, component: Component) -> list[tuple[Revision, object]]:
        """The newest revisions of the object's service, each with the object as of that revision.

        Ends at the first revision whose bundle is no longer stored.
        """
        async with self._context.store.read() as tx:
            service = await tx[ServiceStore].get(component.service_id, deleted=True)
            query = PageQuery(
                _MAX_REVISIONS, equals={"service_id": component.service_id}, newest=True
            )
            rows = (await tx[RevisionStore].page(query)).items
        namespace = service.namespace if service is not None else ""
        history: list[tuple[Revision, object]] = []
        for row in rows:
            try:
                manifest = await self._components.manifest_of(component, namespace, row.digest)
            except TowlineError:
                break
            if manifest is None:
                break
            history.append((row, manifest))
        return history


def _from_history(field: ManagedField, history: Sequence[tuple[Revision, object]]) -> FieldBlame:
    """The oldest revision of an unbroken run with the present value of the field."""
    if not history:
        return FieldBlame(field)
    values = [value_at(manifest, field.steps) for _, manifest in history]
    run_length = 1
    while run_length < len(values) and values[run_length] == values[0]:
        run_length += 1
    return FieldBlame(field, history[run_length - 1][0], is_oldest=run_length == len(values))


async def _write_request(
    tx: Transaction, actor: Actor, managed_object: ManagedObject, writer: _Writer
) -> AuditEntry | None:
    """The audit entry of the write to an object, or to one of its subresources.

    Kubernetes keeps no time for fields that were written with the subresource `scale`. Then it is
    the newest write of a client that has the name of the field manager.
    """
    subresource, manager, at = writer
    if at is None and not subresource:
        return None
    component = managed_object.live.component
    resource = "/".join(part for part in (managed_object.resource, subresource) if part)
    name = "/".join(part for part in (component.namespace, component.name) if part)
    rows: list[AuditEntry] = []
    for verb in _WRITES:
        writes = AuditFilter(
            kind=AuditKind.REQUEST,
            target=f"{managed_object.cluster}: {verb} {resource} {name}",
            verdict=AuditVerdict.ALLOWED,
            since=at - _CLOCK_TOLERANCE if at else None,
            until=at + _CLOCK_TOLERANCE if at else None,
        )
        query = PageQuery(visible=actor.policy.visible(ResourceKind.AUDIT), newest=True)
        rows += (await tx[AuditLog].search(writes, query)).items
    if at is not None:
        return min(rows, key=lambda row: abs(row.at - at), default=None)
    by_manager = [row for row in rows if _client_name(row) == manager]
    return max(by_manager, key=lambda row: row.at, default=None)


def _client_name(row: AuditEntry) -> str:
    """The name that Kubernetes derives from a client's user agent for its field manager."""
    return str(row.detail.get("user_agent", "")).partition("/")[0]
