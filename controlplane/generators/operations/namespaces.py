"""Managed namespaces: namespaces with their content, created in selected clusters."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from controlplane.authorization import Actor
from controlplane.generators.model.definitions import GeneratorDefinition
from controlplane.generators.model.namespaces import ManagedNamespace
from controlplane.generators.operations.definitions import (
    GeneratorChange,
    GeneratorOperations,
    template_from,
)
from controlplane.generators.ports import ManagedNamespaceStore
from controlplane.platform.parts import Columns
from controlplane.platform.ports import Transaction
from controlplane.platform.retry import retry_operations
from controlplane.services.model.ownership import OwnerKind
from controlplane.services.operations.services import ServiceChange


@dataclass(frozen=True, slots=True)
class NamespaceChange(GeneratorChange):
    """Changes to a managed namespace. None leaves a field unchanged."""

    namespace: str | None = None
    """Name of the namespace. Default: same as `name`."""
    labels: Mapping[str, str] | None = None
    """JSON object with labels. Replaces the whole object."""
    annotations: Mapping[str, str] | None = None
    """JSON object with annotations. Replaces the whole object."""
    quota: Mapping[str, str] | None = None
    """Hard limits of a ResourceQuota. Replaces the whole list."""
    template: ServiceChange | None = None
    """Template of a service in the namespace. Default: no service."""

    def columns(self, before: GeneratorDefinition | None = None) -> Columns:
        names = ("namespace", "labels", "annotations", "quota")
        values = {name: getattr(self, name) for name in names}
        values = {name: value for name, value in values.items() if value is not None}
        return GeneratorChange.columns(self, before) | values


@retry_operations
class ManagedNamespaces(GeneratorOperations[ManagedNamespace, NamespaceChange]):
    """Operations on managed namespaces."""

    owner_kind = OwnerKind.NAMESPACE
    noun = "managed namespace"
    port = ManagedNamespaceStore
    model = ManagedNamespace

    def _new_definition(self, change: NamespaceChange) -> ManagedNamespace:
        definition = super()._new_definition(change)
        if change.namespace is None:
            definition = replace(definition, namespace=definition.name)
        return definition.checked()

    async def _fill_in(
        self, tx: Transaction, actor: Actor, definition: ManagedNamespace, change: NamespaceChange
    ) -> ManagedNamespace:
        definition = definition.checked()
        if change.template is None:
            return definition
        template_change = replace(change.template, namespace=definition.namespace)
        template = await template_from(tx, actor, template_change, definition.template)
        return replace(definition, template=template)
