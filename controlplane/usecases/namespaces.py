"""Managed namespaces: namespaces with their content, created in selected clusters."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from controlplane.domain.access import Actor, require_member
from controlplane.domain.namespaces import ManagedNamespace
from controlplane.domain.ownership import OwnerKind
from controlplane.ports import Transaction
from controlplane.usecases.definitions import GeneratorChange, GeneratorOperations, template_from
from controlplane.usecases.retrying import retry_operations
from controlplane.usecases.services import ServiceChange


@dataclass(frozen=True, slots=True)
class NamespaceChange:
    """Changes to a managed namespace. None leaves a field unchanged."""

    common: GeneratorChange = GeneratorChange()
    namespace: str | None = None
    labels: Mapping[str, str] | None = None
    annotations: Mapping[str, str] | None = None
    quota: Mapping[str, str] | None = None
    template: ServiceChange | None = None

    def columns(self) -> dict[str, Any]:
        """The given fields."""
        names = ("namespace", "labels", "annotations", "quota")
        given = {name: getattr(self, name) for name in names}
        return {name: value for name, value in given.items() if value is not None}


@retry_operations
class ManagedNamespaces(GeneratorOperations[ManagedNamespace]):
    """Operations on managed namespaces."""

    kind = OwnerKind.NAMESPACE
    noun = "ManagedNamespace"

    async def create(self, actor: Actor, change: NamespaceChange) -> ManagedNamespace:
        """Creates a managed namespace; the namespace's name defaults to the generator's name."""
        require_member(actor)
        blank = ManagedNamespace(**self._blank(change.common))
        blank = replace(blank, **{"namespace": blank.name, **change.columns()}).checked()
        return await self._make(
            actor, blank, lambda tx, definition: _with_template(tx, actor, definition, change)
        )

    async def update(self, actor: Actor, id: str, change: NamespaceChange) -> ManagedNamespace:
        """Changes a managed namespace in all clusters."""
        require_member(actor)
        return await self._renew(
            actor,
            id,
            lambda before: change.common.columns(before) | change.columns(),
            lambda tx, definition: _with_template(tx, actor, definition.checked(), change),
        )


async def _with_template(
    tx: Transaction, actor: Actor, definition: ManagedNamespace, change: NamespaceChange
) -> ManagedNamespace:
    if change.template is None:
        return definition
    given = replace(change.template, namespace=definition.namespace)
    return replace(definition, template=await template_from(tx, actor, given, definition.template))
