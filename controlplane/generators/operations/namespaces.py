"""Managed namespaces: namespaces with their content, created in selected clusters."""

from dataclasses import dataclass, replace

from controlplane.authorization import Actor
from controlplane.generators.model.definitions import GeneratorDefinition
from controlplane.generators.model.namespaces import ManagedNamespace, NamespaceSpec
from controlplane.generators.operations.definitions import (
    GeneratorChange,
    GeneratorOperations,
    template_from,
)
from controlplane.generators.ports import ManagedNamespaceStore
from controlplane.platform.parts import Columns, Given, given_part, replace_columns
from controlplane.platform.ports import Transaction
from controlplane.platform.retry import retry_operations
from controlplane.services.model.service import OwnerKind
from controlplane.services.operations.services import ServiceChange


@dataclass(frozen=True, slots=True)
class NamespaceChange(GeneratorChange):
    """Changes to a managed namespace. None leaves a field unchanged."""

    spec: Given[NamespaceSpec] = given_part(NamespaceSpec)
    """Fields of the namespace to change."""
    template: ServiceChange | None = None
    """Template of a service in the namespace. Default: no service."""

    def columns(self, before: GeneratorDefinition | None = None) -> Columns:
        return {**GeneratorChange.columns(self, before), **self.spec.columns}


@retry_operations
class ManagedNamespaces(GeneratorOperations[ManagedNamespace, NamespaceChange]):
    """Operations on managed namespaces."""

    owner_kind = OwnerKind.NAMESPACE
    noun = "managed namespace"
    port = ManagedNamespaceStore
    model = ManagedNamespace

    def _new_definition(self, change: NamespaceChange) -> ManagedNamespace:
        definition = super()._new_definition(change)
        if "namespace" not in change.spec.columns:
            definition = replace_columns(definition, {"namespace": definition.name})
        definition.spec.check()
        return definition

    async def _fill_in(
        self, tx: Transaction, actor: Actor, definition: ManagedNamespace, change: NamespaceChange
    ) -> ManagedNamespace:
        definition.spec.check()
        if change.template is None:
            return definition
        template_change = replace(change.template, namespace=definition.spec.namespace)
        template = await template_from(tx, actor, template_change, definition.template)
        return replace(definition, template=template)
