"""Finds the managers of the fields of a resource."""

from collections.abc import Collection

from controlplane.authorization import Actor
from controlplane.configuration_sources.model.managers import FieldManager, reverts_drift
from controlplane.configuration_sources.model.source import ConfigurationSource
from controlplane.configuration_sources.ports import ConfigurationSourceStore
from controlplane.manifests.model.ownership import source_of
from controlplane.manifests.operations.manifests import Manifests
from controlplane.platform.context import OperationContext


class FieldManagers:
    """Tells users who else sets the fields that they change.

    A reader of the resource gets all names, as from an export, but not the settings of sources.
    """

    def __init__(self, context: OperationContext, manifests: Manifests) -> None:
        self._context = context
        self._manifests = manifests

    async def of(self, actor: Actor, kind: str, key: str) -> list[FieldManager]:
        """Returns the managers of the fields of a resource. Raises as `Manifests.document`."""
        declared = await self._manifests.declared(actor, kind, key)
        managed = declared.managed_fields if declared else ()
        sources = await self._sources({source_of(entry["manager"]) for entry in managed} - {""})
        return [
            FieldManager(
                entry["manager"],
                tuple(entry["fields"]),
                name := source_of(entry["manager"]),
                reverts=name in sources and reverts_drift(sources[name]),
            )
            for entry in managed
        ]

    async def _sources(self, names: Collection[str]) -> dict[str, ConfigurationSource]:
        if not names:
            return {}
        async with self._context.store.read() as tx:
            return {row.name: row for row in await tx[ConfigurationSourceStore].by_names(names)}
